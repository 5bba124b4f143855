//! Captures packets into a file while a simulation runs.

use super::SimulatedCapture;
use crate::{LinkId, Packet, SimNode, Simulator};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_pcapng::Interface;
use weft_units::Instant;

/// Captures the packets that arrive over given links, each of which is an interface of the capture.
#[derive(Debug)]
pub struct Capture<W> {
    shared: Arc<Mutex<CaptureState<W>>>,
}

#[derive(Debug)]
struct CaptureState<W> {
    /// The writer of the capture file. `None` after the capture has been finished or has failed.
    writer: Option<SimulatedCapture<W>>,
    interfaces: BTreeMap<LinkId, Interface>,
    failure: Option<io::Error>,
}

impl<W: Write + Send + 'static> Capture<W> {
    /// Starts a capture of the packets that arrive over `links`. Each link comes with the name of its interface.
    ///
    /// The capture replaces the simulator's tap ([`Simulator::tap`]).
    ///
    /// # Errors
    /// Fails if `out` cannot be written.
    ///
    /// # Panics
    /// Panics if the simulator does not have one of the links.
    pub fn start<N: SimNode>(out: W, simulator: &mut Simulator<N>, links: &[(LinkId, &str)]) -> io::Result<Capture<W>> {
        let mut writer = SimulatedCapture::new(out)?;
        let mut interfaces = BTreeMap::new();
        for (link, name) in links {
            interfaces.insert(*link, writer.add_interface(name)?);
        }
        let watched: Vec<LinkId> = interfaces.keys().copied().collect();
        let shared = Arc::new(Mutex::new(CaptureState { writer: Some(writer), interfaces, failure: None }));
        let of_tap = Arc::clone(&shared);
        simulator.tap(&watched, Box::new(move |now, link, packet| lock(&of_tap).packet(now, link, packet)));
        Ok(Capture { shared })
    }

    /// Ends the capture and returns the destination of the file.
    ///
    /// # Errors
    /// Returns the first error that occurred when a packet was written. Fails if buffered data cannot be written.
    pub fn finish(self) -> io::Result<W> {
        let mut shared = lock(&self.shared);
        match (shared.failure.take(), shared.writer.take()) {
            (None, Some(writer)) => writer.finish(),
            (failure, _) => Err(failure.unwrap_or_else(|| io::Error::other("the capture has ended"))),
        }
    }
}

impl<W: Write> CaptureState<W> {
    fn packet(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        let (Some(writer), Some(interface)) = (&mut self.writer, self.interfaces.get(&link)) else { return };
        if let Err(why) = writer.packet(*interface, now, packet) {
            self.failure = Some(why);
            self.writer = None;
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::LinkSpec;
    use crate::{Body, FlowNo, NodeId, PacketEcn, Ports};
    use weft_units::{Duration, Rate};

    /// A node that sends `left` datagrams of `bytes` on link 0, one in each millisecond.
    struct SteadySource {
        left: u64,
        bytes: u32,
        next: Instant,
    }

    impl SimNode for SteadySource {
        fn receive(&mut self, _: Instant, _: LinkId, _: Box<Packet>, _: &mut Ports<'_>) {}

        fn wake(&mut self, now: Instant, ports: &mut Ports<'_>) {
            self.left -= 1;
            self.next = now + Duration::from_millis(1);
            let body = Body::Udp { number: self.left, sent_at: now };
            let (source, destination) = (NodeId(0), NodeId(1));
            let packet = Packet {
                flow: FlowNo(0),
                source,
                destination,
                bytes: self.bytes,
                label: 0,
                ecn: PacketEcn::NotEct,
                body,
            };
            ports.send(LinkId(0), Box::new(packet));
        }

        fn deadline(&self) -> Option<Instant> {
            (self.left > 0).then_some(self.next)
        }
    }

    fn capture(bytes: u32) -> io::Result<Vec<u8>> {
        let mut simulator = Simulator::new(1);
        let source = |left| SteadySource { left, bytes, next: Instant::ZERO };
        let ends = [simulator.add_node(source(5)), simulator.add_node(source(0))];
        let link = simulator.add_link(ends[0], ends[1], LinkSpec::with_rate(Rate::from_mbps(8)));
        let capture = Capture::start(Vec::new(), &mut simulator, &[(link, "a.up")])?;
        simulator.run_until(Instant::from_millis(100));
        capture.finish()
    }

    #[test]
    fn equal_arrivals_make_equal_captures() {
        let once = capture(100).unwrap();
        // The section header has 28 bytes and the interface description 40. Each of the five packets has 28 bytes of IP
        // and UDP headers, 16 bytes of the mark in its payload, and 32 bytes of the enclosing block.
        assert_eq!(once.len(), 28 + 40 + 5 * (28 + 16 + 32));
        assert_eq!(once, capture(100).unwrap());
    }

    #[test]
    fn a_packet_that_cannot_be_is_reported_at_the_end() {
        assert!(capture(10).is_err());
    }
}
