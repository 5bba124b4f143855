//! Text about the rules of access that decide about a flow.

use crate::status::{FlowAccess, FlowDecision, FlowQuestion, FlowWay};

/// Returns the decision as text: one line, and one about dropped packets if the flow is dropped.
pub fn text(access: &FlowAccess, question: &FlowQuestion) -> String {
    let from = access.from.as_deref().unwrap_or("an unknown node");
    let to = access.to.as_deref().unwrap_or("this node");
    let way = match access.way {
        FlowWay::Leaving => "the flow leaves".to_owned(),
        FlowWay::Entering => format!("flow from {from} to this node"),
        FlowWay::Passing => format!("flow from {from} through this node to {to}"),
    };
    let decision = match access.decision {
        FlowDecision::NoRules => "allowed: this node has no [[allow]] rules".to_owned(),
        FlowDecision::NotJudged => {
            let there = command(question);
            format!("unchecked by this node: {to} decides by its own rules; to see how, run on {to}: {there}")
        }
        FlowDecision::Allowed => {
            format!("allowed by the [[allow]] rule {}", access.rule.as_deref().unwrap_or_default())
        }
        FlowDecision::Denied => {
            let rules = match access.rules {
                1 => "the only [[allow]] rule of this node does not match".to_owned(),
                rules => format!("none of the {rules} [[allow]] rules of this node matches"),
            };
            format!("denied: {rules}; only answers to flows from this node or from hosts behind it pass")
        }
        FlowDecision::UnknownSource => {
            "dropped: no peer has this source, so it is refused before any rule; see: weft prefixes".to_owned()
        }
        FlowDecision::Incomplete => {
            "depends on source, protocol and port: weft explain 10.9.0.7 10.9.0.1:22 tcp".to_owned()
        }
    };
    format!("access  {way}{} {decision}\n{}", if access.way == FlowWay::Leaving { "" } else { ":" }, dropped(access))
}

/// Returns a line with the number of packets that this node's rules have dropped, if the flow may be among them.
///
/// Otherwise the text is empty.
fn dropped(access: &FlowAccess) -> String {
    if access.decision != FlowDecision::Denied || access.denied_packets == 0 {
        return String::new();
    }
    let last = if access.denied_last { "; the last one was of this flow" } else { "" };
    let packets = access.denied_packets;
    format!("dropped by this node: {packets} packets, counted over all flows that no rule allows{last}\n")
}

/// Returns the command that asks the same question at another node.
fn command(question: &FlowQuestion) -> String {
    let end = |address: std::net::IpAddr, port: Option<u16>| match port {
        Some(port) => std::net::SocketAddr::new(address, port).to_string(),
        None => address.to_string(),
    };
    let source = question.source.map_or_else(|| "SOURCE".to_owned(), |source| end(source, question.source_port));
    let destination = end(question.destination, question.destination_port);
    let protocol = match question.protocol {
        None => "PROTOCOL".to_owned(),
        Some(1) => "icmp".to_owned(),
        Some(6) => "tcp".to_owned(),
        Some(17) => "udp".to_owned(),
        Some(other) => other.to_string(),
    };
    format!("weft explain {source} {destination} {protocol}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape;
    use crate::hostile;
    use proptest::prelude::*;

    fn question(words: [Option<&str>; 2], ports: [Option<u16>; 2], protocol: Option<u8>) -> FlowQuestion {
        FlowQuestion {
            vpn: None,
            destination: words[1].unwrap_or("10.9.0.1").parse().unwrap(),
            destination_port: ports[1],
            source: words[0].map(|word| word.parse().unwrap()),
            source_port: ports[0],
            protocol,
        }
    }

    fn access(way: FlowWay, decision: FlowDecision) -> FlowAccess {
        let (from, to) = (Some("laptop".to_owned()), Some("office".to_owned()));
        let rule = (decision == FlowDecision::Allowed).then(|| "web".to_owned());
        FlowAccess { schema: 1, way, from, to, decision, rule, rules: 3, denied_packets: 0, denied_last: false }
    }

    #[test]
    fn each_decision_has_its_reason_and_its_node() {
        let ssh = question([Some("10.9.0.7"), Some("10.9.0.1")], [None, Some(22)], Some(6));
        let told = |way, decision| text(&access(way, decision), &ssh);
        let allowed = told(FlowWay::Entering, FlowDecision::Allowed);
        assert_eq!(allowed, "access  flow from laptop to this node: allowed by the [[allow]] rule web\n");
        let denied = told(FlowWay::Passing, FlowDecision::Denied);
        assert!(
            denied.starts_with("access  flow from laptop through this node to office: denied: none of the 3"),
            "{denied}"
        );
        let left = told(FlowWay::Leaving, FlowDecision::NotJudged);
        assert!(
            left.contains("by its own rules; to see how, run on office: weft explain 10.9.0.7 10.9.0.1:22 tcp"),
            "{left}"
        );
        assert!(told(FlowWay::Entering, FlowDecision::NoRules).ends_with("has no [[allow]] rules\n"));
        assert!(told(FlowWay::Entering, FlowDecision::UnknownSource).contains("no peer has this source"));
        assert!(told(FlowWay::Entering, FlowDecision::Incomplete).contains("source, protocol and port"));
    }

    #[test]
    fn packets_that_were_dropped_are_told_if_the_flow_is_denied() {
        let ssh = question([Some("10.9.0.7"), None], [None, Some(22)], Some(6));
        let of = |decision, denied_last| {
            let counted = FlowAccess { denied_packets: 4, denied_last, ..access(FlowWay::Entering, decision) };
            text(&counted, &ssh)
        };
        let dropped = "dropped by this node: 4 packets, counted over all flows that no rule allows; the last";
        assert!(of(FlowDecision::Denied, true).contains(dropped));
        assert!(of(FlowDecision::Denied, false).ends_with("that no rule allows\n"));
        assert_eq!(of(FlowDecision::Allowed, true).lines().count(), 1);
    }

    #[test]
    fn what_the_question_lacks_stands_as_a_word_in_the_advice() {
        assert_eq!(command(&question([None, None], [None; 2], None)), "weft explain SOURCE 10.9.0.1 PROTOCOL");
        let wide = question([Some("fd00::7"), Some("fd00::1")], [Some(9), Some(53)], Some(17));
        assert_eq!(command(&wide), "weft explain [fd00::7]:9 [fd00::1]:53 udp");
    }

    proptest! {
        #[test]
        fn a_name_acts_on_no_terminal_and_adds_no_line(name in hostile::name()) {
            let name = escape::line(&name).into_owned();
            let of_peer = FlowAccess {
                from: Some(name.clone()), to: Some(name.clone()), rule: Some(name),
                ..access(FlowWay::Passing, FlowDecision::Allowed)
            };
            let text = text(&of_peer, &question([None, None], [None; 2], None));
            prop_assert!(hostile::acting(&text).is_none() && text.lines().count() == 1, "{:?}", text);
        }
    }
}
