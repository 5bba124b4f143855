//! Implements tail loss probes (RFC 8985 §7).

use std::time::Duration;

/// Time before a tail loss probe if no RTT was measured yet.
///
/// Standard: RFC 8985 §7.2.
const WITHOUT_RTT: Duration = Duration::from_secs(1);

/// A tail loss probe that was sent and whose outcome is open.
#[derive(Clone, Copy, Debug)]
struct SentTailProbe {
    /// Value of SND.NXT after the probe.
    end: u64,
    is_retransmission: bool,
}

/// The outcome of the tail loss probe that an acknowledgment shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tcp) enum ProbeNews {
    Nothing,
    /// The probe replaced a lost segment, to which the congestion control must respond.
    RepairedLoss,
}

/// The state of tail loss probes, of which at most one is outstanding.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct TailProbe {
    probe: Option<SentTailProbe>,
}

impl TailProbe {
    /// Returns true if a probe is outstanding.
    pub fn is_outstanding(&self) -> bool {
        self.probe.is_some()
    }

    /// Records that a probe is sent. `end` is SND.NXT after it.
    pub fn sent(&mut self, end: u64, is_retransmission: bool) {
        self.probe = Some(SentTailProbe { end, is_retransmission });
    }

    /// Forgets the outstanding probe, because recovery begins or a timeout occurred.
    pub fn cancel(&mut self) {
        self.probe = None;
    }

    /// Processes an acknowledgment of everything before `ack`, which can settle the probe (RFC 8985 §7.4.2).
    ///
    /// `plain_duplicate` is true if the acknowledgment number did not advance and the acknowledgment has no SACK.
    /// `dsack` is true if the acknowledgment reports a duplicate.
    pub fn acknowledged(&mut self, ack: u64, dsack: bool, plain_duplicate: bool) -> ProbeNews {
        let Some(probe) = self.probe.filter(|probe| ack >= probe.end) else { return ProbeNews::Nothing };
        let repaired = probe.is_retransmission && !dsack && ack > probe.end;
        if !probe.is_retransmission || dsack || repaired || plain_duplicate {
            self.probe = None;
        }
        if repaired { ProbeNews::RepairedLoss } else { ProbeNews::Nothing }
    }

    /// Returns the time for which the sender waits for an acknowledgment before it sends a probe (RFC 8985 §7.2).
    ///
    /// `one_in_flight` is true if only one segment is in flight. `max_ack_delay` is the longest time for which the
    /// receiver may then delay its acknowledgment.
    pub fn timeout(srtt: Option<Duration>, one_in_flight: bool, max_ack_delay: Duration) -> Duration {
        match srtt {
            Some(srtt) if one_in_flight => 2 * srtt + max_ack_delay,
            Some(srtt) => 2 * srtt,
            None => WITHOUT_RTT,
        }
    }
}
