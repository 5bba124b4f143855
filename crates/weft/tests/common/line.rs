//! A link with rate, delay and random loss between two namespaces, as the kernel of the machine may lack netem.

use super::inside::within;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::IpAddr;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use weft_io::tun::{TunConfig, TunDevice};
use weft_io::wait::Poller;
use weft_units::Rng;

/// Properties of each direction.
#[derive(Clone, Copy)]
pub struct LineSpec {
    pub bits_per_s: f64,
    pub delay: Duration,
    /// Share of packets that are lost, 0 to 1.
    pub loss: f64,
    /// Longest time in the queue.
    pub queue: Duration,
}

/// A running link. Dropping it removes both ends.
pub struct Line {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Direction {
    sent: Option<Instant>,
    on_the_way: VecDeque<(Instant, Vec<u8>)>,
}

impl Direction {
    fn take(&mut self, packet: &[u8], spec: &LineSpec, rng: &mut Rng) {
        let now = Instant::now();
        let begin = self.sent.map_or(now, |sent| sent.max(now));
        if begin - now > spec.queue {
            return;
        }
        let end = begin + Duration::from_secs_f64(packet.len() as f64 * 8.0 / spec.bits_per_s);
        self.sent = Some(end);
        if !rng.chance(spec.loss) {
            self.on_the_way.push_back((end + spec.delay, packet.to_vec()));
        }
    }

    fn deliver(&mut self, to: &TunDevice) {
        while self.on_the_way.front().is_some_and(|(at, _)| *at <= Instant::now()) {
            if let Some((_, packet)) = self.on_the_way.pop_front() {
                // A full device drops, as a network card does.
                let _ = to.write(&[IoSlice::new(&packet)]);
            }
        }
    }
}

impl Line {
    /// Opens a device of this name in both namespaces, with the hosts 1 and 2 of a network of 16 addresses.
    pub fn start(name: &str, network: u8, spec: LineSpec) -> Line {
        let open = |node: &str, host: u8| {
            let address = IpAddr::from([192, 0, 2, network + host]);
            let addresses = vec![(address, 28)];
            let config = TunConfig { name: Some(name.to_owned()), mtu: 1_500, addresses, alias: String::new() };
            let opened = within(node, move || {
                let device = TunDevice::open_plain(&config).unwrap();
                device.set_txqueuelen(5_000).unwrap();
                device
            });
            opened.join().unwrap()
        };
        let ends = [open("home", 1), open("hub", 2)];
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let _ = weft_io::wait::set_timer_slack(1);
            let mut poller = Poller::new().unwrap();
            (0..2).for_each(|end| poller.add(ends[end].as_raw_fd(), end as u64).unwrap());
            let (mut ready, mut buffer, mut rng) = (Vec::new(), vec![0; 2_000], Rng::new(7));
            let mut directions = [Direction::default(), Direction::default()];
            while !over.load(Ordering::Relaxed) {
                let due = directions.iter().filter_map(|of| of.on_the_way.front().map(|(at, _)| *at)).min();
                let wait = due.map_or(Duration::from_millis(50), |due| due.saturating_duration_since(Instant::now()));
                poller.wait(Some(wait), &mut ready).unwrap();
                for end in 0..2 {
                    directions[end].deliver(&ends[1 - end]);
                    for _ in 0..16 {
                        let Ok(Some(len)) = ends[end].read(&mut buffer) else { break };
                        directions[end].take(&buffer[..len], &spec, &mut rng);
                    }
                }
            }
        });
        Line { is_over, thread: Some(thread) }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
