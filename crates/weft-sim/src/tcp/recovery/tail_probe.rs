//! Tail loss probes (RFC 8985 §7).

use std::time::Duration;

/// Without a round-trip time a probe leaves after a second (§7.2).
const WITHOUT_RTT: Duration = Duration::from_secs(1);

/// A probe that was sent.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// SND.NXT after it.
    end: u64,
    is_retransmission: bool,
}

/// What an acknowledgment says about the probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tcp) enum ProbeNews {
    Nothing,
    /// It filled a hole: a loss, to be answered as one.
    RepairedLoss,
}

/// At most one probe at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct TailProbe {
    probe: Option<Probe>,
}

impl TailProbe {
    /// One is on its way.
    pub fn is_outstanding(&self) -> bool {
        self.probe.is_some()
    }

    /// One leaves; `end` is SND.NXT after it.
    pub fn sent(&mut self, end: u64, is_retransmission: bool) {
        self.probe = Some(Probe { end, is_retransmission });
    }

    /// Recovery begins: the probe has done its work.
    pub fn cancel(&mut self) {
        self.probe = None;
    }

    /// An acknowledgment of everything before `ack` (§7.4.2); `plain_duplicate`: it moved nothing and has no SACK.
    pub fn acknowledged(&mut self, ack: u64, dsack: bool, plain_duplicate: bool) -> ProbeNews {
        let Some(probe) = self.probe.filter(|probe| ack >= probe.end) else { return ProbeNews::Nothing };
        let repaired = probe.is_retransmission && !dsack && ack > probe.end;
        if !probe.is_retransmission || dsack || repaired || plain_duplicate {
            self.probe = None;
        }
        if repaired { ProbeNews::RepairedLoss } else { ProbeNews::Nothing }
    }

    /// How long to wait for an acknowledgment before a probe (§7.2).
    pub fn timeout(srtt: Option<Duration>, one_in_flight: bool, max_ack_delay: Duration) -> Duration {
        match srtt {
            Some(srtt) if one_in_flight => 2 * srtt + max_ack_delay,
            Some(srtt) => 2 * srtt,
            None => WITHOUT_RTT,
        }
    }
}
