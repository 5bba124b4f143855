//! The user and the grant of each flow.

use super::Port;
use super::contract::FlowContract;
use super::flows::{FlowPlace, FlowState};
use crate::{ClassId, Treatment};
use alloc::boxed::Box;
use weft_units::FlowId;

impl<T> Port<T> {
    /// Sets the user and the grant of a flow, in place of the previous ones.
    ///
    /// `user` is the caller's number of the user. All its flows share one `weight` (1 to 256), that of the last call.
    /// Packets that wait move to the new user and class. A repeated call gives the flow no new burst.
    pub fn set_flow(&mut self, flow: FlowId, user: u32, weight: u32, treatment: &Treatment) {
        let mut contract = FlowContract::new(treatment);
        if let (Some(new), Some(old)) =
            (&mut contract, self.flows.get(usize::from(flow.0)).and_then(|f| f.contract.as_ref()))
        {
            new.continue_from(old);
        }
        let user = self.rounds.join(Some(user), weight);
        let class = self.load.number(treatment.class);
        self.place_flow(u32::from(flow.0), user, treatment.delay_priority, class, contract);
    }

    /// Forgets a flow. Packets that still wait belong to the anonymous user.
    pub fn forget_flow(&mut self, flow: FlowId) {
        let is_known = self.flows.get(usize::from(flow.0)).is_some_and(|flow| flow.user != 0);
        if is_known {
            let user = self.rounds.join(None, 1);
            let class = self.load.number(ClassId::default());
            self.place_flow(u32::from(flow.0), user, 0, class, None);
        }
    }

    /// Moves a flow, with its packets, to a user, a delay priority, a class and a contract.
    fn place_flow(&mut self, id: u32, user: u32, priority: u8, class: u16, contract: Option<FlowContract>) {
        if self.flows.len() <= id as usize {
            self.flows.resize(id as usize + 1, FlowState::UNNAMED);
        }
        let place = self.flows[id as usize].place;
        self.deselect(id);
        self.move_to(id, FlowPlace::None);
        self.ready.clear(id);
        self.later.clear(id);
        let flow = &mut self.flows[id as usize];
        let (before, old_class) = (flow.user, flow.class);
        self.rounds.user_mut(before).remove_exposed(&flow.fifo);
        let is_guaranteed = contract.as_ref().is_some_and(FlowContract::is_guaranteed);
        if !is_guaranteed {
            self.packets.expose(&mut flow.fifo);
        }
        (flow.user, flow.class, flow.contract) = (user, class, contract.map(Box::new));
        let (bytes, flows) = (flow.fifo.bytes as i64, !flow.fifo.is_empty());
        self.rounds.user_mut(user).add_exposed(&flow.fifo);
        self.load.on_backlog(old_class, -bytes, -i32::from(flows));
        self.load.on_backlog(class, bytes, flows.into());
        self.rounds.leave(before);
        self.flows[id as usize].lane = self.rounds.lane(user, priority);
        if is_guaranteed {
            self.reserve_deadlines();
            self.on_new_head(id);
        }
        if self.flows[id as usize].fifo.exposed > 0 {
            self.move_to(id, if place == FlowPlace::None { FlowPlace::Old } else { place });
        }
    }

    /// Reserves space for all flows in the heaps `ready` and `later`, so that no packet allocates memory.
    fn reserve_deadlines(&mut self) {
        let flows = self.flows.len();
        self.ready.reserve(flows);
        self.later.reserve(flows);
    }
}
