//! Computes the results of a `ping` flow from its replies.

use crate::{Flow, FlowResult, percentile};
use std::time::Duration;

/// An answered echo request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EchoReply {
    /// Sequence number of the request, from 1.
    pub sequence: u64,
    /// Round-trip time in milliseconds.
    pub rtt_ms: f64,
}

/// Returns the result of a `ping` flow that sent `count` requests.
pub fn ping_result(flow: &Flow, warmup: Duration, replies: &[EchoReply], count: u64) -> FlowResult {
    let own_warmup_s = warmup.saturating_sub(flow.start).as_secs_f64();
    let first = (own_warmup_s / flow.interval.as_secs_f64()).ceil() as u64 + 1;
    let counted = || replies.iter().filter(|reply| reply.sequence >= first).map(|reply| reply.rtt_ms);
    FlowResult {
        name: flow.name.clone(),
        rtt_ms_p50: percentile(counted(), 0.5),
        rtt_ms_p95: percentile(counted(), 0.95),
        lost: Some(((count + 1).saturating_sub(first) as f64 - counted().count() as f64).max(0.0)),
        ..FlowResult::default()
    }
}
