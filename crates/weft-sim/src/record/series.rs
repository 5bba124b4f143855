//! Samples time series of links, flows and loops at fixed intervals.
//!
//! It writes all values to a CSV file, and keeps means over longer intervals for charts.

use super::TcpState;
use crate::link::LinkDirectionState;
use std::io::{self, Write};
use weft_core::control_loop::LoopStatus;
use weft_scenario::Series;
use weft_units::Instant;

/// Maximum number of points of a series.
///
/// A chart cannot show more points. When a series has this number of points, the mean of each pair of points replaces
/// the pair.
const MAX_POINTS: usize = 600;

/// The state of one direction of a link at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkSnapshot {
    /// IP bytes that the link has transmitted so far.
    pub sent_bytes: u64,
    /// IP bytes that the link could have carried since the previous snapshot.
    pub capacity_bytes: u64,
    /// IP bytes in the queue, including the packet in transmission.
    pub queue_bytes: u64,
    /// Number of packets that the link has dropped or lost so far.
    pub dropped_packets: u64,
}

impl LinkSnapshot {
    /// Returns the state of a link at `now`. `before` is the time of the previous snapshot.
    pub fn of(link: &mut LinkDirectionState, before: Instant, now: Instant) -> LinkSnapshot {
        let (_, queue_bytes) = link.backlog(now);
        let capacity_bytes = link.capacity_bytes(before, now);
        let stats = link.stats(now);
        let dropped_packets = stats.dropped_packets + stats.lost_packets + stats.cut_packets;
        LinkSnapshot { sent_bytes: stats.sent_bytes, capacity_bytes, queue_bytes, dropped_packets }
    }
}

/// The state of a flow at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowSample {
    /// Payload bytes that the application has received so far.
    pub delivered_bytes: u64,
    /// State of the sending end; `None`: the flow does not use TCP.
    pub tcp: Option<TcpState>,
}

/// The state of a VPN's loop at one moment.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LoopSnapshot {
    /// IP bytes that have left the tunnel at the egress edge so far.
    pub delivered_bytes: u64,
    /// IP bytes of the VPN that wait in the queue at the ingress edge.
    pub queue_bytes: u64,
    /// State of the loop's control law; `None`: the loop has no law or has not started.
    pub control: Option<LoopStatus>,
}

/// Writes a line `time_s,series,unit,value` for every value of every sample.
///
/// It needs memory only in proportion to the number of links, flows and loops. The series are:
///
/// - of a link: `NAME` (bit/s sent), `NAME.utilisation`, `NAME.queue` and `NAME.drops` (in the interval);
/// - of a flow: `NAME` (bit/s delivered), and with TCP `NAME.cwnd`, `NAME.ssthresh` and `NAME.srtt`;
/// - of a loop: `NAME` (bit/s delivered), `NAME.queue`, and with a control law `NAME.rate`, `NAME.window`, `NAME.rtt`,
///   `NAME.lost` (so far) and `NAME.accumulation`.
#[derive(Debug)]
pub struct Sampler<W> {
    out: W,
    links: Vec<(LinkSnapshot, [BoundedSeries; 4])>,
    flows: Vec<(FlowSample, [BoundedSeries; 4])>,
    loops: Vec<(LoopSnapshot, [BoundedSeries; 7])>,
    last: Instant,
}

impl<W: Write> Sampler<W> {
    /// Creates a sampler for the links (`fibre.up` …), flows and loops with these names.
    ///
    /// Its first sample covers the time from the start of the simulation.
    ///
    /// # Errors
    /// Fails if `out` cannot be written.
    pub fn new(mut out: W, links: &[&str], flows: &[&str], loops: &[&str]) -> io::Result<Sampler<W>> {
        writeln!(out, "time_s,series,unit,value")?;
        let of_link = |name: &&str| {
            let parts = [("", "bit/s"), (".utilisation", "fraction"), (".queue", "byte"), (".drops", "packet")];
            (LinkSnapshot::default(), curves(name, parts))
        };
        let of_flow = |name: &&str| {
            let parts = [("", "bit/s"), (".cwnd", "byte"), (".ssthresh", "byte"), (".srtt", "ms")];
            (FlowSample::default(), curves(name, parts))
        };
        let of_loop = |name: &&str| {
            let parts = [
                ("", "bit/s"),
                (".queue", "byte"),
                (".rate", "bit/s"),
                (".window", "byte"),
                (".rtt", "ms"),
                (".lost", "packet"),
                (".accumulation", "byte"),
            ];
            (LoopSnapshot::default(), curves(name, parts))
        };
        let (links, flows) = (links.iter().map(of_link).collect(), flows.iter().map(of_flow).collect());
        Ok(Sampler { out, links, flows, loops: loops.iter().map(of_loop).collect(), last: Instant::ZERO })
    }

    /// Writes the states at `now`. They must be in the order of the names that [`Sampler::new`] got.
    ///
    /// It records nothing if no time has passed since the last sample.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn sample(
        &mut self,
        now: Instant,
        links: &[LinkSnapshot],
        flows: &[FlowSample],
        loops: &[LoopSnapshot],
    ) -> io::Result<()> {
        let step_s = now.since(self.last).as_secs_f64();
        if step_s <= 0.0 {
            return Ok(());
        }
        self.last = now;
        let time_s = now.as_nanos() as f64 / 1e9;
        for ((last, curves), link) in self.links.iter_mut().zip(links) {
            add_all(&mut self.out, curves, time_s, link_values(last, link, step_s))?;
            *last = *link;
        }
        for ((last, curves), flow) in self.flows.iter_mut().zip(flows) {
            add_all(&mut self.out, curves, time_s, flow_values(last, flow, step_s))?;
            *last = *flow;
        }
        for ((last, curves), this) in self.loops.iter_mut().zip(loops) {
            add_all(&mut self.out, curves, time_s, loop_values(last, this, step_s))?;
            *last = *this;
        }
        Ok(())
    }

    /// Ends the file. Returns its destination, and the series for charts, with means in place of single values.
    ///
    /// # Errors
    /// Fails if buffered data cannot be written.
    pub fn finish(mut self) -> io::Result<(W, Vec<Series>)> {
        self.out.flush()?;
        let links = self.links.into_iter().flat_map(|(_, curves)| curves);
        let curves = links.chain(self.flows.into_iter().flat_map(|(_, curves)| curves));
        let curves = curves.chain(self.loops.into_iter().flat_map(|(_, curves)| curves));
        Ok((self.out, curves.map(|curve| curve.series).filter(|series| !series.points.is_empty()).collect()))
    }
}

/// Returns the growth of a counter from `before` to `now`.
///
/// If `now` is below `before`, the counter was reset to 0 in between, and the growth is `now`.
fn grown(before: u64, now: u64) -> f64 {
    now.checked_sub(before).unwrap_or(now) as f64
}

fn link_values(last: &LinkSnapshot, link: &LinkSnapshot, step_s: f64) -> [Option<f64>; 4] {
    let sent = grown(last.sent_bytes, link.sent_bytes);
    let capacity = link.capacity_bytes as f64;
    let drops = grown(last.dropped_packets, link.dropped_packets);
    let utilisation = (capacity > 0.0).then(|| sent / capacity);
    [Some(sent * 8.0 / step_s), utilisation, Some(link.queue_bytes as f64), Some(drops)]
}

fn flow_values(last: &FlowSample, flow: &FlowSample, step_s: f64) -> [Option<f64>; 4] {
    let delivered = grown(last.delivered_bytes, flow.delivered_bytes);
    let ssthresh = flow.tcp.map(|tcp| tcp.ssthresh_bytes).filter(|bytes| *bytes != u64::MAX);
    [
        Some(delivered * 8.0 / step_s),
        flow.tcp.map(|tcp| tcp.cwnd_bytes as f64),
        ssthresh.map(|bytes| bytes as f64),
        flow.tcp.and_then(|tcp| tcp.srtt).map(|srtt| srtt.as_secs_f64() * 1e3),
    ]
}

fn loop_values(last: &LoopSnapshot, this: &LoopSnapshot, step_s: f64) -> [Option<f64>; 7] {
    let delivered = grown(last.delivered_bytes, this.delivered_bytes);
    let of = |value: fn(&LoopStatus) -> f64| this.control.as_ref().map(value);
    [
        Some(delivered * 8.0 / step_s),
        Some(this.queue_bytes as f64),
        of(|control| control.rate.bps() as f64),
        of(|control| control.window_bytes as f64),
        of(|control| control.rtt.as_secs_f64() * 1e3),
        of(|control| f64::from(control.lost_packets)),
        of(|control| control.accumulation_bytes as f64),
    ]
}

fn curves<const N: usize>(name: &str, parts: [(&str, &'static str); N]) -> [BoundedSeries; N] {
    parts.map(|(part, unit)| BoundedSeries::new(format!("{name}{part}"), unit))
}

fn add_all<W: Write, const N: usize>(
    out: &mut W,
    curves: &mut [BoundedSeries; N],
    time_s: f64,
    values: [Option<f64>; N],
) -> io::Result<()> {
    for (curve, value) in curves.iter_mut().zip(values) {
        let Some(value) = value else { continue };
        writeln!(out, "{time_s:.4},{},{},{value:.3}", curve.series.name, curve.series.unit)?;
        curve.add(time_s, value);
    }
    Ok(())
}

/// A series with at most [`MAX_POINTS`] points, however long the simulation runs.
///
/// Each point is the mean of several values, whose number grows with the length of the run.
#[derive(Debug)]
struct BoundedSeries {
    series: Series,
    values_per_point: u32,
    sum: f64,
    values: u32,
}

impl BoundedSeries {
    fn new(name: String, unit: &'static str) -> BoundedSeries {
        let series = Series { name, unit, points: Vec::new() };
        BoundedSeries { series, values_per_point: 1, sum: 0.0, values: 0 }
    }

    fn add(&mut self, time_s: f64, value: f64) {
        self.sum += value;
        self.values += 1;
        if self.values < self.values_per_point {
            return;
        }
        let points = &mut self.series.points;
        points.push((time_s, self.sum / f64::from(self.values)));
        (self.sum, self.values) = (0.0, 0);
        if points.len() == MAX_POINTS {
            let (pairs, _) = points.as_chunks::<2>();
            *points = pairs.iter().map(|[a, b]| (b.0, (a.1 + b.1) / 2.0)).collect();
            self.values_per_point *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Duration;

    #[test]
    fn counters_become_rates_of_the_interval() {
        let mut sampler = Sampler::new(Vec::new(), &["fibre.up"], &["bulk"], &[]).unwrap();
        let link = |sent_bytes, dropped_packets| LinkSnapshot {
            sent_bytes,
            capacity_bytes: 50_000,
            queue_bytes: 3_000,
            dropped_packets,
        };
        let tcp = TcpState { cwnd_bytes: 14_480, ssthresh_bytes: u64::MAX, srtt: Some(Duration::from_millis(20)) };
        let flow = |delivered_bytes| FlowSample { delivered_bytes, tcp: Some(tcp) };
        sampler.sample(Instant::from_millis(100), &[link(12_500, 0)], &[flow(10_000)], &[]).unwrap();
        sampler.sample(Instant::from_millis(100), &[link(99_999, 0)], &[flow(99_999)], &[]).unwrap();
        sampler.sample(Instant::from_millis(200), &[link(37_500, 2)], &[flow(10_000)], &[]).unwrap();
        let (csv, series) = sampler.finish().unwrap();
        let expected = "time_s,series,unit,value\n\
            0.1000,fibre.up,bit/s,1000000.000\n0.1000,fibre.up.utilisation,fraction,0.250\n\
            0.1000,fibre.up.queue,byte,3000.000\n0.1000,fibre.up.drops,packet,0.000\n\
            0.1000,bulk,bit/s,800000.000\n0.1000,bulk.cwnd,byte,14480.000\n0.1000,bulk.srtt,ms,20.000\n\
            0.2000,fibre.up,bit/s,2000000.000\n0.2000,fibre.up.utilisation,fraction,0.500\n\
            0.2000,fibre.up.queue,byte,3000.000\n0.2000,fibre.up.drops,packet,2.000\n\
            0.2000,bulk,bit/s,0.000\n0.2000,bulk.cwnd,byte,14480.000\n0.2000,bulk.srtt,ms,20.000\n";
        assert_eq!(String::from_utf8(csv).unwrap(), expected);
        assert_eq!(series.len(), 7);
        assert_eq!(series[0].points, [(0.1, 1e6), (0.2, 2e6)]);
    }

    #[test]
    fn counters_may_be_started_anew() {
        let before = LinkSnapshot { sent_bytes: 9_000, ..LinkSnapshot::default() };
        let anew = LinkSnapshot { sent_bytes: 1_000, ..LinkSnapshot::default() };
        assert_eq!(link_values(&before, &anew, 1.0), [Some(8_000.0), None, Some(0.0), Some(0.0)]);
    }

    #[test]
    fn a_long_run_is_thinned_to_the_same_mean() {
        let mut sampler = Sampler::new(io::sink(), &["a"], &[], &[]).unwrap();
        for n in 1..=10_240_u64 {
            let link = LinkSnapshot { queue_bytes: n, ..LinkSnapshot::default() };
            sampler.sample(Instant::from_millis(n), &[link], &[], &[]).unwrap();
        }
        let (_, series) = sampler.finish().unwrap();
        let points = &series.iter().find(|s| s.name == "a.queue").unwrap().points;
        assert!((MAX_POINTS / 2..MAX_POINTS).contains(&points.len()), "{}", points.len());
        let mean = points.iter().map(|(_, value)| value).sum::<f64>() / points.len() as f64;
        assert!((mean - 5_120.5).abs() < 16.5, "{mean}");
        assert!(points.is_sorted_by(|a, b| a.0 < b.0));
    }
}
