//! Runs ping, which measures the round-trip time of a sparse flow.

use super::{FlowEndpoints, FlowReport, GRACE, failed, need};
use crate::LabError;
use crate::interrupt;
use weft_scenario::Series;
use weft_scenario::measure::{EchoReply, ping_result};

pub(super) fn run(place: &FlowEndpoints) -> Result<FlowReport, LabError> {
    need("ping", "iputils-ping")?;
    let FlowEndpoints { world, flow, .. } = place;
    interrupt::sleep_until(place.starts_at())?;
    let interval_s = flow.interval.as_secs_f64();
    let count = (place.length().as_secs_f64() / interval_s).floor().max(1.0);
    let mut command = world.home.command("ping");
    command.args([
        "-n",
        "-i",
        &format!("{interval_s:.3}"),
        "-c",
        &count.to_string(),
        "-W",
        "3",
        &place.hub().to_string(),
    ]);
    if let Some(host) = place.host() {
        command.args(["-I", &host.to_string()]);
    }
    let output = world.home.output(command, place.length() + GRACE)?;
    let replies: Vec<EchoReply> = String::from_utf8_lossy(&output.stdout).lines().filter_map(parse_reply).collect();
    if replies.is_empty() && !output.stderr.is_empty() {
        return Err(failed("ping", &output.stderr));
    }
    Ok(report(place, &replies, count as u64))
}

/// Parses a line of `ping` such as `64 bytes from 10.0.0.2: icmp_seq=7 ttl=64 time=16.2 ms`. `None` for other lines.
fn parse_reply(line: &str) -> Option<EchoReply> {
    let field = |key: &str| line.split_whitespace().find_map(|word| word.strip_prefix(key));
    Some(EchoReply { sequence: field("icmp_seq=")?.parse().ok()?, rtt_ms: field("time=")?.parse().ok()? })
}

fn report(place: &FlowEndpoints, replies: &[EchoReply], count: u64) -> FlowReport {
    let (start_s, interval_s) = (place.flow.start.as_secs_f64(), place.flow.interval.as_secs_f64());
    let result = ping_result(place.flow, place.schedule.warmup, replies, count);
    let points =
        replies.iter().map(|reply| (start_s + (reply.sequence - 1) as f64 * interval_s, reply.rtt_ms)).collect();
    FlowReport { result, series: vec![Series { name: place.flow.name.clone(), unit: "ms", points }] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_and_other_lines_left() {
        let line = "64 bytes from 10.0.0.2: icmp_seq=7 ttl=64 time=16.2 ms";
        assert_eq!(parse_reply(line), Some(EchoReply { sequence: 7, rtt_ms: 16.2 }));
        assert_eq!(parse_reply("no answer yet for icmp_seq=1"), None);
        assert_eq!(parse_reply("PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data."), None);
    }
}
