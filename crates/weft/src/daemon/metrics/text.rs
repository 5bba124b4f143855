//! Prometheus's text exposition format, version 0.0.4.

use crate::escape;
use std::fmt::Write as _;

/// Value of the HTTP header `Content-Type`.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Type of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricKind {
    /// A value that only grows. Its name ends in `_total`.
    Counter,
    /// A value that rises and falls.
    Gauge,
}

/// A metric of things of type `T`: its name, its help text, and its value, which may be absent.
pub struct Family<T: ?Sized> {
    pub kind: MetricKind,
    pub name: &'static str,
    pub help: &'static str,
    pub value: fn(&T) -> Option<f64>,
}

/// Labels of a sample.
pub type MetricLabels<'a> = Vec<(&'static str, &'a str)>;

/// The text of several families of metrics, as it is sent to a client.
#[derive(Default)]
pub struct Exposition {
    text: String,
}

impl Exposition {
    /// Returns the text of all families that were added.
    pub fn into_text(self) -> String {
        self.text
    }

    /// Adds the families in order, each with a sample for every thing that has a value.
    pub fn add<'a, T: ?Sized + 'a>(
        &mut self,
        families: &[Family<T>],
        things: impl Iterator<Item = (MetricLabels<'a>, &'a T)> + Clone,
    ) {
        for Family { kind, name, help, value } in families {
            let samples = things.clone().filter_map(|(labels, thing)| Some((labels, value(thing)?)));
            self.family(*kind, name, help, samples);
        }
    }

    /// Adds a family. A family without samples is left out.
    pub fn family<'a>(
        &mut self,
        kind: MetricKind,
        name: &str,
        help: &str,
        samples: impl Iterator<Item = (MetricLabels<'a>, f64)>,
    ) {
        let word = if kind == MetricKind::Counter { "counter" } else { "gauge" };
        for (at, (labels, value)) in samples.enumerate() {
            if at == 0 {
                let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {word}\n");
            }
            self.text.push_str(name);
            for (at, (label, value)) in labels.iter().enumerate() {
                self.text.push(if at == 0 { '{' } else { ',' });
                let _ = write!(self.text, "{label}=\"{}\"", escaped(value));
            }
            let close = if labels.is_empty() { "" } else { "}" };
            let _ = writeln!(self.text, "{close} {value}");
        }
    }
}

/// Escapes the value of a label.
///
/// Characters that act on a terminal are escaped, and so are those that would end a label or a line for Prometheus.
fn escaped(value: &str) -> String {
    let line = |line: &str| escape::line(line).replace('\\', "\\\\").replace('"', "\\\"");
    value.split('\n').map(line).collect::<Vec<_>>().join("\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostile;
    use proptest::prelude::*;

    #[test]
    fn one_head_a_family_and_values_of_others_cannot_break_a_line() {
        let mut exposition = Exposition::default();
        let samples = [(vec![("peer", "a\"b\\c\nd"), ("path", "0")], 1.5), (Vec::new(), f64::from(u32::MAX))];
        exposition.family(MetricKind::Gauge, "weft_x_seconds", "A time.", samples.into_iter());
        exposition.family(MetricKind::Counter, "weft_y_total", "Never.", std::iter::empty());
        assert_eq!(
            exposition.into_text(),
            "# HELP weft_x_seconds A time.\n# TYPE weft_x_seconds gauge\n\
             weft_x_seconds{peer=\"a\\\"b\\\\c\\nd\",path=\"0\"} 1.5\nweft_x_seconds 4294967295\n"
        );
    }

    /// Returns the value of a label as a reader of the format parses it, or `None` if the line is malformed.
    fn read_label(line: &str) -> Option<String> {
        let mut rest = line.strip_prefix("weft_x{peer=\"")?.chars();
        let mut value = String::new();
        loop {
            match rest.next()? {
                '"' => return (rest.as_str() == "} 1").then_some(value),
                '\\' => value.push(match rest.next()? {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    _ => return None,
                }),
                c => value.push(c),
            }
        }
    }

    proptest! {
        #[test]
        fn any_name_makes_one_sample_that_is_read_back(name in hostile::name()) {
            let mut exposition = Exposition::default();
            exposition.family(MetricKind::Gauge, "weft_x", "X.", std::iter::once((vec![("peer", name.as_str())], 1.0)));
            let text = exposition.into_text();
            prop_assert!(hostile::acting(&text).is_none(), "{text:?}");
            prop_assert_eq!(text.split_terminator('\n').count(), 3);
            let label = read_label(text.split_terminator('\n').next_back().unwrap());
            let lines: Vec<_> = name.split('\n').map(escape::line).collect();
            prop_assert_eq!(label, Some(lines.join("\n")));
        }
    }
}
