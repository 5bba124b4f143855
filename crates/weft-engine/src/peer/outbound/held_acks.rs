//! Duplicate ACKs that wait for the next one of their flow, at most one for each flow (`ack = "condition"`).

use crate::units::{Origin, Whole};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use weft_core::flow::ack_condition::{AckConditioner, AckVerdict, AckView};
use weft_units::{FlowId, Instant};

/// A packet that is not in the flow queue yet: its origin, the packet, and its serial number.
pub type Fresh = (Origin, Whole, u32);

/// One flow whose duplicate ACKs are thinned.
///
/// `conditioner` is the algorithm's state. `held` is the packet that waits, with the number of its wait.
#[derive(Default)]
struct OfFlow {
    conditioner: AckConditioner,
    held: Option<(u32, Fresh)>,
}

/// The flows whose duplicate ACKs are thinned, by flow number.
#[derive(Default)]
pub struct HeldAcks {
    flows: Vec<OfFlow>,
    /// Waits in the order of their ends: the end, the flow, and the number of the wait.
    ///
    /// An entry whose packet has left already is ignored.
    waits: VecDeque<(Instant, FlowId, u32)>,
    number: u32,
    held: usize,
}

impl HeldAcks {
    /// Decides whether a segment of a flow leaves now or waits until `until` at the latest.
    ///
    /// Returns the packets that leave now and the packet that is superfluous. Each may be absent.
    pub fn judge(&mut self, flow: FlowId, view: &AckView<'_>, until: Instant, fresh: Fresh) -> Judged {
        let at = usize::from(flow.0);
        if self.flows.len() <= at {
            self.flows.resize_with(at + 1, OfFlow::default);
        }
        let of = &mut self.flows[at];
        let verdict = of.conditioner.judge(view);
        let held = of.held.take().map(|(_, held)| held);
        self.held -= usize::from(held.is_some());
        match verdict {
            AckVerdict::Pass | AckVerdict::PassBoth => Judged { leave: [held, Some(fresh)], superfluous: None },
            AckVerdict::Replace => Judged { leave: [None, Some(fresh)], superfluous: held },
            AckVerdict::Hold => {
                self.number = self.number.wrapping_add(1);
                of.held = Some((self.number, fresh));
                self.held += 1;
                self.waits.push_back((until, flow, self.number));
                Judged { leave: [None, None], superfluous: held }
            }
        }
    }

    /// Removes and returns a held packet whose wait is over, or `None` if there is none.
    pub fn next_released(&mut self, now: Instant) -> Option<Fresh> {
        while let Some((_, flow, number)) = self.waits.front().copied().filter(|(until, ..)| *until <= now) {
            self.waits.pop_front();
            if let Some(of) = self.flows.get_mut(usize::from(flow.0))
                && let Some((_, held)) = of.held.take_if(|(of_wait, _)| *of_wait == number)
            {
                of.conditioner.on_released();
                self.held -= 1;
                return Some(held);
            }
        }
        None
    }

    /// Removes and returns every held packet, and forgets all flows.
    pub fn clear(&mut self) -> impl Iterator<Item = Fresh> + use<> {
        (self.held, self.waits) = (0, VecDeque::new());
        core::mem::take(&mut self.flows).into_iter().filter_map(|of| of.held.map(|(_, held)| held))
    }

    /// Returns the time at which the first wait ends, or `None` if no packet waits.
    pub fn deadline(&self) -> Option<Instant> {
        self.waits.front().map(|(until, ..)| *until)
    }

    /// Returns the number of held packets.
    pub fn len(&self) -> usize {
        self.held
    }
}

/// Decision about a segment and about the segment of the flow that was held before it.
pub struct Judged {
    /// Packets that leave now, in this order.
    pub leave: [Option<Fresh>; 2],
    /// A packet that is not needed, because a later packet carries the same information. The caller drops it.
    pub superfluous: Option<Fresh>,
}
