//! Runs iperf3: one bulk TCP connection, or datagrams at a constant rate.
//!
//! The receiver measures goodput.

use super::{FlowEndpoints, FlowReport, GRACE, failed, need, wait_listening};
use crate::LabError;
use crate::interrupt;
use serde::Deserialize;
use std::process::Stdio;
use std::time::Duration;
use weft_scenario::{App, Flow, FlowDirection, FlowResult, Series};

/// Interval between two reports of the receiver, in seconds.
const INTERVAL_S: &str = "0.1";
/// Minimum length of an interval that the time series shows, in seconds.
const LEAST_INTERVAL_S: f64 = 0.05;
const LISTEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that the server may take to report after the client has ended.
const SERVER_GRACE: Duration = Duration::from_secs(5);
/// Length of IPv4 and UDP headers, in bytes.
const UDP_HEADERS_LEN: u32 = 28;
/// Time in seconds by which the receiver's last interval may end before the flow does.
const END_SLACK_S: f64 = 0.2;

#[derive(Deserialize, Default)]
struct Iperf3Report {
    #[serde(default)]
    intervals: Vec<Interval>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Interval {
    sum: Iperf3Sum,
}

#[derive(Deserialize)]
struct Iperf3Sum {
    start: f64,
    end: f64,
    bytes: f64,
}

pub(super) fn run(place: &FlowEndpoints) -> Result<FlowReport, LabError> {
    need("iperf3", "iperf3")?;
    let FlowEndpoints { world, lane, flow, port, .. } = place;
    let port_text = port.to_string();
    let mut server = lane.tcp_command(&world.hub, "iperf3");
    server
        .args(["-s", "-4", "-1", "-J", "-i", INTERVAL_S, "-p", &port_text])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let server = world.hub.spawn(server)?;
    wait_listening(&world.hub, *port, LISTEN_TIMEOUT)?;

    interrupt::sleep_until(place.starts_at())?;
    let mut client = lane.tcp_command(&world.home, "iperf3");
    let length_s = place.length().as_secs_f64().round().max(1.0).to_string();
    client.args(["-c", &place.hub().to_string(), "-p", &port_text, "-t", &length_s, "-i", INTERVAL_S, "-J"]);
    if let Some(host) = place.host() {
        client.args(["-B", &host.to_string()]);
    }
    match flow.app {
        App::Cbr => client.arg("-u").args(datagrams(flow)),
        _ => client.args(["-C", &flow.congestion]),
    };
    if let Some(pacing) = flow.pacing {
        client.args(["--fq-rate", &pacing.bps().to_string()]);
    }
    if let Some(bytes) = flow.receive_buffer_bytes {
        // `-w` sets the buffers of both ends. The kernel doubles the value to account for its own overhead.
        client.args(["-w", &bytes.to_string()]);
    }
    client.args(["--connect-timeout", "10000"]);
    if flow.direction == FlowDirection::Down {
        client.arg("-R");
    }
    let client = world.home.output(client, place.length() + GRACE)?;
    let client_report: Iperf3Report =
        serde_json::from_slice(&client.stdout).map_err(|_| failed("iperf3", &client.stderr))?;
    let server_output = server.output_within(SERVER_GRACE);
    let received = match flow.direction {
        FlowDirection::Down => Iperf3Report { intervals: client_report.intervals, error: None },
        FlowDirection::Up => {
            server_output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default()
        }
    };
    if received.intervals.is_empty() {
        let said = client_report.error.unwrap_or_else(|| "the receiver reported nothing".into());
        return Err(failed("iperf3", said.as_bytes()));
    }
    Ok(report(place, &received.intervals, client_report.error.is_some()))
}

/// Returns the options for datagrams of the flow's size at its rate.
///
/// The rate of iperf3 is that of the payload, without headers.
fn datagrams(flow: &Flow) -> [String; 4] {
    let payload_bytes = flow.packet_bytes - UDP_HEADERS_LEN;
    let rate_bps = f64::from(payload_bytes) * 8.0 / flow.interval.as_secs_f64();
    ["-l".into(), payload_bytes.to_string(), "-b".into(), format!("{rate_bps:.0}")]
}

fn report(place: &FlowEndpoints, intervals: &[Interval], broke: bool) -> FlowReport {
    let goodput_bps = goodput(intervals, place.own_warmup().as_secs_f64(), place.length().as_secs_f64());
    let start_s = place.flow.start.as_secs_f64();
    let point = |i: &Interval| (start_s + i.sum.end, i.sum.bytes * 8.0 / (i.sum.end - i.sum.start));
    let result = FlowResult {
        name: place.flow.name.clone(),
        goodput_bps: Some(goodput_bps),
        longest_gap_ms: None,
        tcp_resets: (place.flow.app != App::Cbr).then_some(if broke { 1.0 } else { 0.0 }),
        ..FlowResult::default()
    };
    // The last interval may be too short for a rate.
    let points = intervals.iter().filter(|i| i.sum.end - i.sum.start > LEAST_INTERVAL_S).map(point).collect();
    FlowReport { result, series: vec![Series { name: place.flow.name.clone(), unit: "bit/s", points }] }
}

/// Returns the rate received from `warmup_s` until `length_s` after the flow's start, in bit/s.
fn goodput(intervals: &[Interval], warmup_s: f64, length_s: f64) -> f64 {
    let counted =
        || intervals.iter().map(|i| &i.sum).filter(|sum| sum.start >= warmup_s - 0.01 && sum.end <= length_s + 0.05);
    let bytes: f64 = counted().map(|sum| sum.bytes).sum();
    let seconds: f64 = counted().map(|sum| sum.end - sum.start).sum();
    bytes * 8.0 / seconds.max(length_s - warmup_s - END_SLACK_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(seconds: usize) -> Vec<Interval> {
        (0..seconds)
            .map(|s| Interval {
                sum: Iperf3Sum { start: s as f64, end: s as f64 + 1.0, bytes: if s < 2 { 9e9 } else { 1e6 } },
            })
            .collect()
    }

    #[test]
    fn a_rate_counts_ip_bytes() {
        let interval = Duration::from_micros(500);
        let flow = Flow { packet_bytes: 1_000, interval, ..Flow::plain("cbr", App::Cbr, Duration::from_secs(1)) };
        assert_eq!(datagrams(&flow), ["-l", "972", "-b", "15552000"]);
    }

    #[test]
    fn the_warm_up_does_not_count() {
        assert_eq!(goodput(&steady(10), 2.0, 10.0), 8e6);
    }

    #[test]
    fn a_connection_that_died_early_counts_for_the_whole_time() {
        let measured = goodput(&steady(6), 2.0, 10.0);
        assert!((measured - 4e6 * 8.0 / 7.8).abs() < 1.0, "{measured}");
    }
}
