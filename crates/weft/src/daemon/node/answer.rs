//! Answers to requests from the control socket.

use super::*;
use crate::daemon::shown::access::Judge;
use weft_control::{DrillCut, VpnSetting};
use weft_core::service::{DEFAULT_GAMMA, Service};
use weft_engine::{DrillTarget, VpnChange};
use weft_units::Rate;

impl DaemonNode {
    /// Executes a task.
    pub fn on_task(&mut self, task: Task) {
        match task {
            Task::Learn(slice, reply) => self.learn(slice, &reply),
            Task::Routing(report) => self.routing.report = *report,
            Task::Sense(addresses) => self.sense(addresses),
            Task::Stop => self.stop("signal"),
            Task::Carried(report) => self.on_carried(report),
            Task::Reload => {
                // The log has the result.
                let _ = self.reload();
            }
            Task::Answer(request, reply) => {
                if let Some(response) = self.answer(request, &reply) {
                    // A client that has disconnected needs no answer.
                    let _ = reply.try_send(response);
                }
            }
        }
    }

    /// Executes a request. Returns the response unless it follows later.
    fn answer(&mut self, request: Request, reply: &SyncSender<Response>) -> Option<Response> {
        Some(match request {
            Request::Status => Response::Status(Box::new(self.status())),
            Request::SetWeights { weights } => {
                match self.engine.handle_command(self.clock.now(), Command::SetWeights(weights)) {
                    Ok(()) => {
                        self.log.info("weights set");
                        self.weights_set()
                    }
                    Err(why) => refused(why),
                }
            }
            Request::SetVpn { vpn, change } => {
                let command = Command::SetVpn { vpn: vpn.clone(), change: vpn_change(change) };
                match self.engine.handle_command(self.clock.now(), command) {
                    Ok(()) => {
                        self.log.info(format_args!("VPN {vpn} now has: {change}"));
                        Response::Done
                    }
                    Err(why) => refused(why),
                }
            }
            Request::Ping { peer } => return self.ping(peer, reply),
            Request::Explain { flow } => {
                let judge = Judge { engine: &self.engine, config: &self.config, own: self.certificate.as_ref() };
                live::explain(judge, self.clock.now(), &flow)
            }
            Request::Sockets { peer } => self.sockets(peer.as_deref()),
            Request::LinkMap { from } => live::link_map(&mut self.engine, from.as_deref()),
            Request::Prefixes { peer, vpn } => {
                live::prefixes(&self.engine, &self.config, &self.routing.report, (peer.as_deref(), vpn.as_deref()))
            }
            Request::Qos { most } => {
                if self.engine.flow_totals().is_none() {
                    let why =
                        "the node keeps no flow state; begin with a [[rule]], [users] or [export] in the configuration";
                    return Some(Response::Refused { why: why.to_owned() });
                }
                self.listings.push((FlowListing::new(most as usize), reply.clone()));
                return None;
            }
            Request::Drill { cut, time_ms, force } => {
                let (of, time) = (drill_target(cut), Duration::from_millis(time_ms));
                let said = format!("drill: {of} is cut for {time_ms} ms");
                match self.engine.handle_command(self.clock.now(), Command::Drill { of, time, force }) {
                    Ok(()) => {
                        self.log.info(said);
                        Response::Done
                    }
                    Err(why) => refused(why),
                }
            }
            Request::DrillReport => live::drill(&self.engine, self.clock.now()),
            Request::Revoke { revocation } => match trust::revoke(&mut self.engine, self.clock, &revocation) {
                Ok(()) => Response::Done,
                Err(why) => Response::Refused { why },
            },
            Request::Call { key, application, body } => {
                let called = self.call(&key, application, &body, reply);
                return called.err().map(|why| Response::Refused { why });
            }
            Request::Receive { application } => {
                let received = self.platform.receive(self.clock.now(), application, reply.clone());
                return received.err().map(|why| Response::Refused { why });
            }
            Request::Answer { call, body } => match self.answer_call(call, &body) {
                Ok(()) => Response::Done,
                Err(why) => Response::Refused { why },
            },
            Request::Watch { after } => {
                self.platform.watch(self.clock.now(), after, reply.clone());
                return None;
            }
            Request::ResetPeer { peer } => match self.reset_peer(&peer) {
                Ok(()) => Response::Done,
                Err(why) => refused(why),
            },
            Request::History { peer } => self.history(&peer),
            Request::AccessChanged | Request::AccessClients | Request::OpenvpnClients => match &self.access {
                Some(access) => return access.ask(request, reply),
                None => Response::Refused { why: "the running node has no [access]: restart it".to_owned() },
            },
            Request::Reload => match self.reload() {
                Ok(()) => Response::Done,
                Err(why) => Response::Refused { why },
            },
            Request::Try { file, confirm_ms } => match self.try_out(&file, confirm_ms) {
                Ok(()) => Response::Done,
                Err(why) => Response::Refused { why },
            },
            Request::Confirm { file } => match self.confirm(&file) {
                Ok(()) => Response::Done,
                Err(why) => Response::Refused { why },
            },
            Request::Undo => match self.trial.end().and_then(|()| self.reload()) {
                Ok(()) => Response::Done,
                Err(why) => Response::Refused { why },
            },
            Request::Down => {
                self.lifts_kill_switch = true;
                self.stop("weft down");
                Response::Done
            }
        })
    }

    /// Returns the response to new weights, with a note if a schedule ignores weights.
    fn weights_set(&self) -> Response {
        let snapshot = self.engine.snapshot(self.clock.now());
        let heedless = snapshot.peers.iter().filter(|peer| !peer.schedule.uses_weights());
        let heedless: Vec<String> =
            heedless.map(|peer| format!("{} ({})", peer.name, live::schedule_name(peer.schedule))).collect();
        match heedless[..] {
            [] => Response::Done,
            _ => Response::DoneBut {
                note: format!(
                    "the weights are set, but the schedule ignores them toward {}; [policy] schedule = \
                     \"weighted-round-robin\" uses them",
                    heedless.join(", ")
                ),
            },
        }
    }

    fn ping(&mut self, peer: String, reply: &SyncSender<Response>) -> Option<Response> {
        let (now, id) = (self.clock.now(), self.pings.new_id());
        if let Err(why) = self.engine.handle_command(now, Command::Ping { peer: peer.clone(), id }) {
            return Some(refused(why));
        }
        self.pings.started(id, now, &self.engine.peer_snapshot(now, &peer)?, reply.clone());
        None
    }

    fn call(&mut self, key: &str, application: u16, body: &str, reply: &SyncSender<Response>) -> Result<(), String> {
        let (key, body) = (platform::key_of(key), platform::body(body)?);
        platform::check(application)?;
        let number = self.engine.call_key(self.clock.now(), key, application, &body).map_err(|why| why.to_string())?;
        self.platform.called(number, reply.clone());
        Ok(())
    }

    fn answer_call(&mut self, call: u64, body: &str) -> Result<(), String> {
        let body = platform::body(body)?;
        let asked = self.platform.take(call).ok_or("no call with this number waits for an answer")?;
        self.engine.answer_call(self.clock.now(), &asked, &body).map_err(|why| why.to_string())
    }

    fn reset_peer(&mut self, peer: &str) -> Result<(), CommandError> {
        let key = self.engine.reset_peer(self.clock.now(), peer)?;
        self.log.info(format_args!("peer {peer}: this node deleted the stamps of the peer's handshakes"));
        self.accepted.retain(|(of, _)| *of != key);
        self.forgotten.push(key);
        self.forget_stamps();
        Ok(())
    }

    /// Makes the state thread delete the stored stamps of peers. If its queue is full, the next upkeep tries again.
    pub(super) fn forget_stamps(&mut self) {
        let state_writer = &self.state_writer;
        self.forgotten.retain(|key| !state_writer.forget(*key));
    }

    /// Returns the histories of the measurements of a peer's paths.
    ///
    /// A removed peer has histories as long as those of its paths are stored.
    fn history(&self, peer: &str) -> Response {
        let paths = self.histories.of(peer);
        if paths.is_empty() && !self.engine.peer_names().any(|name| name == peer) {
            return refused(CommandError::UnknownPeer(self.engine.peer_names().map(str::to_owned).collect()));
        }
        Response::Histories { paths }
    }
}

/// Converts the target of a drill from the control socket's type to the engine's.
fn drill_target(cut: DrillCut) -> DrillTarget {
    match cut {
        DrillCut::Link(name) => DrillTarget::Link(name),
        DrillCut::Node(name) => DrillTarget::Node(name),
    }
}

/// Converts the change of a VPN from the control socket's type to the engine's.
fn vpn_change(of: VpnSetting) -> VpnChange {
    let promise = |service: fn(Rate) -> Service, bps| match bps {
        0 => Service::BestEffort,
        bps => service(Rate::from_bps(bps)),
    };
    let assured = of.assured_bps.map(|bps| promise(|rate| Service::Assured { rate, gamma: DEFAULT_GAMMA }, bps));
    let leased = of.leased_bps.map(|bps| promise(|rate| Service::LeasedLine { rate }, bps));
    // At most one of the two is a rate. It counts also beside a `none` for the other.
    let rate = [leased, assured].into_iter().flatten().find(|service| *service != Service::BestEffort);
    VpnChange { weight: of.weight, service: rate.or(leased).or(assured) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_counts_beside_none_for_the_other_rate() {
        let service =
            |assured_bps, leased_bps| vpn_change(VpnSetting { weight: None, assured_bps, leased_bps }).service;
        let rate = Rate::from_bps(4_000_000);
        let assured = Some(Service::Assured { rate, gamma: DEFAULT_GAMMA });
        let leased = Some(Service::LeasedLine { rate });
        for none in [None, Some(0)] {
            assert_eq!(service(Some(4_000_000), none), assured);
            assert_eq!(service(none, Some(4_000_000)), leased);
        }
        for (assured, leased) in [(Some(0), None), (None, Some(0)), (Some(0), Some(0))] {
            assert_eq!(service(assured, leased), Some(Service::BestEffort));
        }
        assert_eq!(service(None, None), None);
    }
}
