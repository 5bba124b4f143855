//! Holds `weft_er` in the kernel and renews what is granted by destination, on a thread of its own: the packet loop knows nothing of it.

use super::Log;
use crate::config::TcpEr;
use nix::time::{ClockId, clock_gettime};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use weft_tcp_er::congestion::{Choice, Congestion, choose};

/// A grant holds for four round trips, and for a fifth of a second at least.
const RENEW_EVERY: Duration = Duration::from_millis(50);
/// Whoever held it may have ended.
const LOOK_EVERY: u32 = 20;

/// What holds it. The congestion control and the grants go when this goes.
pub struct Keeper {
    orders: Sender<TcpEr>,
    choice: Arc<Mutex<Choice>>,
}

impl Keeper {
    /// Loads it; where that fails, says why, once, and what sockets get instead.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(wanted: TcpEr, log: Log) -> io::Result<Keeper> {
        let (loaded, choice) = match Congestion::load() {
            Ok(congestion) => (Some(congestion), choose(None)),
            Err(why) => (None, choose(Some(&why.to_string()))),
        };
        if !choice.because.is_empty() {
            let instead = choice.available.name().unwrap_or("the kernel's own congestion control");
            log.info(format_args!("explicit rates by {instead}: {}", choice.because));
        }
        let (orders, told) = channel();
        let choice = Arc::new(Mutex::new(choice));
        let keeper = Keeper { orders, choice: Arc::clone(&choice) };
        if let Some(congestion) = loaded {
            let hold = move || Holder { congestion, wanted, choice, log }.run(&told);
            thread::Builder::new().name("weft-tcp-er".into()).spawn(hold)?;
        }
        Ok(keeper)
    }

    /// Grants these from now on.
    pub fn set(&self, wanted: TcpEr) {
        // Without the thread there is nothing to grant by.
        let _ = self.orders.send(wanted);
    }

    /// What sockets with an explicit rate get, and why nothing better.
    pub fn choice(&self) -> Choice {
        self.choice.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Holder {
    congestion: Congestion,
    wanted: TcpEr,
    choice: Arc<Mutex<Choice>>,
    log: Log,
}

impl Holder {
    fn run(mut self, orders: &Receiver<TcpEr>) {
        let mut turn = 0u32;
        loop {
            self.renew();
            match orders.recv_timeout(RENEW_EVERY) {
                Ok(wanted) => self.change(wanted),
                Err(RecvTimeoutError::Timeout) => turn += 1,
                Err(RecvTimeoutError::Disconnected) => return self.change(TcpEr::default()),
            }
            if turn.is_multiple_of(LOOK_EVERY) {
                self.look();
            }
        }
    }

    fn renew(&self) {
        let Ok(now) = clock_gettime(ClockId::CLOCK_MONOTONIC) else { return };
        let now_ns = now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64;
        for grant in &self.wanted.grants {
            let to = grant.to.value;
            if let Err(why) = self.congestion.grants().set(to.address, to.length, grant.rate.bps() / 8, now_ns) {
                self.log.debug(format_args!("grant toward {}/{}: {why}", to.address, to.length));
            }
        }
    }

    fn change(&mut self, wanted: TcpEr) {
        for grant in &self.wanted.grants {
            let to = grant.to.value;
            if let Err(why) = self.congestion.grants().clear(to.address, to.length) {
                self.log.debug(format_args!("grant toward {}/{}: {why}", to.address, to.length));
            }
        }
        self.wanted = wanted;
    }

    fn look(&mut self) {
        let failed = self.congestion.keep().err().map(|why| why.to_string());
        *self.choice.lock().unwrap_or_else(PoisonError::into_inner) = choose(failed.as_deref());
    }
}
