//! The summary at the end of a capture.

use crate::table::bytes;
use serde::Serialize;
use std::time::Duration;

/// Counters of a whole capture.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Summary {
    /// Version of the JSON format.
    pub schema: u32,
    /// File of the capture; `-` is standard output.
    pub file: String,
    /// Duration of the capture, in milliseconds.
    pub time_ms: u64,
    /// Reason for the end: `count`, `time`, `signal` or `reader`.
    pub ended_by: &'static str,
    /// Number of packets stored, over all interfaces.
    pub packets: u64,
    /// Number of packets that the kernel dropped because the command was too slow, over all interfaces.
    pub dropped: u64,
    /// Counters of each interface.
    pub interfaces: Vec<InterfaceSummary>,
}

/// Counters of an interface.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct InterfaceSummary {
    /// Name of the interface.
    pub name: String,
    /// `outer`: datagrams on a link; `inner`: packets on a tunnel's device.
    pub layer: &'static str,
    /// Number of packets of this interface that were stored.
    pub packets: u64,
    /// Total length of the stored packets in bytes, including the bytes that were cut off.
    pub bytes: u64,
    /// Number of packets of this interface that the kernel dropped because the command was too slow.
    pub dropped: u64,
}

impl Summary {
    /// Returns the summary as text, with a line for each interface if there are several.
    pub fn text(&self) -> String {
        let time = Duration::from_millis(self.time_ms).as_secs_f64();
        let file = if self.file == "-" { String::new() } else { format!(": {}", self.file) };
        let Summary { packets, dropped, .. } = self;
        let mut text = format!("stored {packets} packets in {time:.1} s, {dropped} dropped by the kernel{file}\n");
        for of in self.interfaces.iter().filter(|_| self.interfaces.len() > 1) {
            let InterfaceSummary { name, layer, packets, dropped, .. } = of;
            let bytes = bytes(of.bytes);
            text += &format!("  interface {name} ({layer}): {packets} packets, {bytes} in total, {dropped} dropped\n");
        }
        if self.dropped > 0 {
            text += "the kernel dropped packets because they came faster than they were stored: select with --link, \
                     --peer or --snap\n";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape;
    use crate::hostile;
    use proptest::prelude::*;

    fn summary(name: &str, dropped: u64) -> Summary {
        let interface = |layer| InterfaceSummary { name: name.to_owned(), layer, packets: 5, bytes: 600, dropped };
        let interfaces = vec![interface("outer"), interface("inner")];
        Summary {
            schema: 1,
            file: "a.pcapng".to_owned(),
            time_ms: 1_500,
            ended_by: "count",
            packets: 10,
            dropped,
            interfaces,
        }
    }

    #[test]
    fn drops_and_their_remedy_are_told() {
        let text = summary("eth0", 0).text();
        let first = "stored 10 packets in 1.5 s, 0 dropped by the kernel: a.pcapng\n";
        assert!(text.starts_with(first) && text.lines().count() == 3, "{text}");
        let text = summary("eth0", 7).text();
        assert!(
            text.contains(", 7 dropped by the kernel: a.pcapng\n") && text.ends_with("--peer or --snap\n"),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn a_name_acts_on_no_terminal_and_adds_no_line(name in hostile::name()) {
            let text = summary(&escape::line(&name), 0).text();
            prop_assert!(hostile::acting(&text).is_none() && text.lines().count() == 3, "{:?}", text);
        }
    }
}
