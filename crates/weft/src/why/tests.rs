use super::*;
use std::collections::BTreeSet;
use weft_engine::Tried;
use weft_session::{Identity, RefusedStamp};
use weft_units::PeerId;

fn own() -> Own {
    Own { public_key: "OWN".to_owned(), addresses: vec!["203.0.113.9".parse().unwrap()], without_route: Vec::new() }
}

fn facts() -> SessionFacts {
    SessionFacts {
        id: PeerId(0),
        peer: "hub".to_owned(),
        is_revoked: false,
        without_session: Some(PATIENCE),
        endpoints: vec!["192.0.2.1:51900".parse().unwrap()],
        out_of_reach: Vec::new(),
        links: 2,
        tried: Vec::new(),
        refused_stamp: None,
        unreadable: None,
        unfollowed: None,
    }
}

fn tried(link: &str, came_back: Option<Unreachable>) -> Tried {
    let remote = "192.0.2.1:51900".parse().unwrap();
    Tried { link: link.to_owned(), remote, sent: 9, came_back: came_back.map(|why| (why, None)) }
}

fn causes(facts: &SessionFacts, strangers: &[Stranger]) -> Vec<String> {
    findings(facts, strangers, &own()).into_iter().map(|finding| finding.cause).collect()
}

#[test]
fn each_cause_has_words_of_its_own() {
    let names: BTreeSet<_> = Cause::all().map(Cause::name).collect();
    let advice: BTreeSet<_> = Cause::all().map(|cause| cause.words().likely).collect();
    assert_eq!((names.len(), advice.len()), (Cause::all().count(), Cause::all().count()));
    let page = include_str!("../../../../docs/use/connecting.md");
    for cause in Cause::all() {
        let (row, words) = (format!("| `{}` |", cause.name()), cause.words());
        let line = page.lines().find(|line| line.starts_with(&row));
        let line = line.unwrap_or_else(|| panic!("docs/use/connecting.md has no row `{row}`"));
        assert!(line.contains(words.likely) && line.contains(words.advice), "{line}\n{words:?}");
    }
}

#[test]
fn a_revoked_key_is_the_only_cause_whatever_else_is_known() {
    let seen = vec![tried("a", None), tried("b", Some(Unreachable::Port))];
    for known in [facts(), SessionFacts { tried: seen, ..facts() }, SessionFacts { links: 0, ..facts() }] {
        let revoked = SessionFacts { is_revoked: true, ..known };
        assert_eq!(causes(&revoked, &[]), ["revoked"]);
    }
}

#[test]
fn the_link_by_which_a_call_got_furthest_names_the_cause() {
    let all = [
        Some(Unreachable::Port),
        Some(Unreachable::Prohibited),
        None,
        Some(Unreachable::Host),
        Some(Unreachable::Network),
        Some(Unreachable::Filtered),
        Some(Unreachable::NoRoute),
        Some(Unreachable::LinkDown),
    ];
    for (first, near) in all.iter().enumerate() {
        for far in &all[first..] {
            let facts = SessionFacts { tried: vec![tried("a", *far), tried("b", *near)], ..facts() };
            let found = findings(&facts, &[], &own());
            assert_eq!(found[0].cause, Cause::of(*near).name());
            assert!(
                found[0].found.contains("over link a") && found[0].found.contains("over link b"),
                "{}",
                found[0].found
            );
        }
    }
}

#[test]
fn evidence_from_the_peer_outranks_icmp_errors() {
    let stranger =
        |shown| Stranger { source: "192.0.2.1:7".parse().unwrap(), shown, times: 3, ago: Duration::from_secs(1) };
    let key = Identity::from_secret([7; 32]).public_key();
    let facts = SessionFacts { tried: vec![tried("a", None)], ..facts() };
    assert_eq!(causes(&facts, &[stranger(Shown::Key(key))]), ["unknown-key", "silent"]);
    assert_eq!(causes(&facts, &[stranger(Shown::OtherKey)]), ["other-key", "silent"]);
    let elsewhere = Stranger { source: "198.51.100.1:7".parse().unwrap(), ..stranger(Shown::OtherKey) };
    assert_eq!(causes(&facts, &[elsewhere]), ["silent"], "a call from where the peer is not");
    let unreadable = SessionFacts { unreadable: Some("192.0.2.1:7".parse().unwrap()), ..facts.clone() };
    assert_eq!(causes(&unreadable, &[]), ["preshared-key"]);
    let stamp = RefusedStamp { stamp: 9, accepted: 1, fault: StampFault::TooFarAhead };
    assert_eq!(causes(&SessionFacts { refused_stamp: Some((stamp, true)), ..facts }, &[]), ["clock-ahead", "silent"]);
}

#[test]
fn a_waiting_node_reports_the_reason() {
    let waiting = SessionFacts { endpoints: Vec::new(), ..facts() };
    assert_eq!(causes(&waiting, &[]), ["no-call"]);
    for private in ["10.1.2.3", "172.16.0.1", "192.168.7.7", "100.64.0.1", "fd00::1"] {
        let own = Own { addresses: vec![private.parse().unwrap()], ..own() };
        assert_eq!(findings(&waiting, &[], &own)[0].cause, "no-call-behind-nat", "{private}");
    }
    assert_eq!(causes(&SessionFacts { links: 0, ..facts() }, &[]), ["no-link"]);
    let beyond = SessionFacts { out_of_reach: facts().endpoints, ..facts() };
    assert_eq!(causes(&beyond, &[]), ["no-route"]);
}
