//! Requests in band: one link, several links, and a network with faults.
#![allow(missing_docs)]

mod admission;
mod faults;
mod shares;

use weft_wire::er_sig::{BurstTolerance, DelayVariance, Message, Rates, Signal, SignalService};

/// Returns a request for `forward` rates without further options.
fn plain_request(service: SignalService, forward: Rates) -> Signal {
    Signal {
        message: Message::Request,
        service,
        receiver_pays: false,
        is_lowered: false,
        preemption: 0,
        delay_priority: 0,
        burst: BurstTolerance::default(),
        delay_variance: DelayVariance::default(),
        forward,
        reverse: Rates::default(),
        echoed: Rates::default(),
        nonce: 0,
        hops: 0,
        qttl: 0,
        lowered_by: 0,
        must_be_met: false,
        is_overlay: false,
        tag: 0,
    }
}
