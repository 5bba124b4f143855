//! Applies the fate of each datagram to the units and frames that it carried.
//!
//! A report, or a timeout in a path's record of sent packets, shows which datagrams were acknowledged or lost. Units
//! are then released or queued for retransmission, frames become pending again, and loops are informed of losses.

use super::control::revocation_sync::RevocationSync;
use super::{Context, Peer};
use crate::path::{BatchLimit, PathMtu, Pending, Sent};
use crate::units::headers::SentHeaders;
use crate::units::{UnitId, Units};
use crate::vpn::Openings;
use alloc::vec::Vec;
use weft_core::pool::Pool;
use weft_core::sense::{Departure, Fate, SentPackets};
use weft_units::planted::{self, Fault};
use weft_units::{Instant, VpnId};
use weft_wire::hop::PART_OVERHEAD;

/// State that is updated when the fate of a datagram becomes known, besides the record of sent packets.
pub(super) struct Fates<'a> {
    pub(super) now: Instant,
    pub(super) units: &'a mut Units,
    /// Lost units that are to be retransmitted.
    pub(super) lost: &'a mut Vec<UnitId>,
    /// VPNs of lost data that is not retransmitted.
    pub(super) lost_data: &'a mut Vec<VpnId>,
    pub(super) pool: &'a mut Pool,
    pub(super) mtu: &'a mut PathMtu,
    pub(super) batch: &'a mut BatchLimit,
    pub(super) pending: &'a mut Pending,
    pub(super) revocation_sync: &'a mut RevocationSync,
    pub(super) openings: &'a mut Openings,
    pub(super) headers: &'a mut SentHeaders,
    /// True if the path drops datagrams of full size while shorter ones arrive.
    pub(super) black_hole: bool,
}

impl Peer {
    /// Runs `work` on a path's record of sent packets and applies the fates that it finds.
    ///
    /// Loops are then informed of losses.
    pub(super) fn apply_fates<R>(
        &mut self,
        cx: &mut Context<'_>,
        index: usize,
        work: impl FnOnce(&mut SentPackets<Sent>, &mut Fates<'_>) -> R,
    ) -> R {
        let (now, lost_before) = (cx.now, self.recovery.lost.len());
        let path = &mut self.paths[index];
        let mut fates = Fates {
            now,
            units: &mut self.recovery.units,
            lost: &mut self.recovery.lost,
            lost_data: &mut self.recovery.lost_data,
            pool: &mut *cx.pool,
            mtu: &mut path.mtu,
            batch: &mut path.batch,
            pending: &mut path.pending,
            revocation_sync: &mut self.control.revocation_sync,
            openings: &mut self.ingress.openings,
            headers: &mut self.recovery.sent_headers,
            black_hole: false,
        };
        let found = work(&mut path.sent_packets, &mut fates);
        if fates.black_hole {
            self.log_path(cx.events, index, "full datagrams are lost: MTU reduced");
        }
        self.report_losses_to_loops(now, lost_before);
        self.send_revocations(cx);
        found
    }

    /// Informs loops of losses: a retransmitted loss is reported as congestion, any other loss as a final loss.
    ///
    /// Entries before the index `from` in the list of lost units were reported earlier.
    fn report_losses_to_loops(&mut self, now: Instant, from: usize) {
        for at in from..self.recovery.lost.len() {
            let vpn =
                self.recovery.lost.get(at).and_then(|id| self.recovery.units.get(*id)).map(|unit| unit.segment.vpn);
            if let Some(vpn) = vpn.filter(|vpn| *vpn != VpnId::DEFAULT) {
                self.ingress.queue.on_congestion(now, vpn);
            }
        }
        for vpn in self.recovery.lost_data.drain(..) {
            if !planted::is(Fault::LoopNotToldOfLoss) {
                self.ingress.queue.on_loss(now, vpn);
            }
        }
    }
}

impl Fates<'_> {
    pub(super) fn on_fate(&mut self, sent: Sent, fate: Fate, departure: Departure) {
        let delivered = fate == Fate::Delivered;
        if matches!(sent, Sent::Unit(_) | Sent::Part(..) | Sent::Data(..)) {
            self.batch.on_fate(self.now, departure, fate);
        }
        match sent {
            Sent::Unit(id) => {
                let unit = self.units.get(id);
                self.black_hole |= self.mtu.on_data(self.now, unit.map_or(0, |unit| unit.sent_bytes), delivered);
                if delivered {
                    if let Some(unit) = unit {
                        self.headers.confirm(unit.segment.flow, unit.seq);
                    }
                    self.units.release_packet(id, self.pool);
                    self.units.release(id, self.pool);
                } else {
                    self.lost.push(id);
                }
            }
            Sent::Part(id, part) => {
                let size = self.units.get(id).map_or(0, |u| (part.bytes(u.len()).len() + PART_OVERHEAD + 28) as u16);
                self.black_hole |= self.mtu.on_data(self.now, size, delivered);
                if delivered && self.units.part_arrived(id, part) {
                    self.units.release_packet(id, self.pool);
                }
                if !delivered && self.units.part_lost(id, part) {
                    self.lost.push(id);
                } else {
                    self.units.release(id, self.pool);
                }
            }
            Sent::Data(size, vpn) => {
                self.black_hole |= self.mtu.on_data(self.now, size, delivered);
                if !delivered && vpn != VpnId::DEFAULT {
                    self.lost_data.push(vpn);
                }
            }
            Sent::MtuProbe(size) if delivered => self.mtu.on_probe_delivered(self.now, size),
            Sent::MtuProbe(size) if planted::is(Fault::LostProbeRaisesMtu) => {
                self.mtu.on_probe_delivered(self.now, size)
            }
            Sent::MtuProbe(size) => self.mtu.on_probe_lost(self.now, size),
            Sent::Control(resend) if delivered => self.revocation_sync.on_delivered(resend),
            Sent::Control(resend) => {
                self.pending.resend(resend);
                self.revocation_sync.on_lost(resend);
                if let Some(news) = resend.vpn {
                    self.openings.queue_frame(news);
                }
            }
        }
    }
}
