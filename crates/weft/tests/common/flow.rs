//! A TCP flow between two nodes through their tunnel.

use super::inside::within;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

const PORT: u16 = 5_001;

/// A flow that sends as fast as it can until it is dropped.
pub struct TcpFlow {
    arrived: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl TcpFlow {
    /// Starts a flow from a node to `address`, the tunnel address of the node `to`.
    pub fn start(from: &str, to: &str, address: Ipv4Addr) -> TcpFlow {
        TcpFlow::start_with(from, to, address, |_| {})
    }

    /// Starts a flow that uses CUBIC, whatever this machine's default is.
    pub fn start_cubic(from: &str, to: &str, address: Ipv4Addr) -> TcpFlow {
        TcpFlow::start_with(from, to, address, |stream| {
            let name = b"cubic";
            // SAFETY: the descriptor is open. Pointer and length describe `name`, which the kernel only reads.
            let set = unsafe {
                let len = name.len() as libc::socklen_t;
                libc::setsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_ptr().cast(), len)
            };
            assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
        })
    }

    fn start_with(from: &str, to: &str, address: Ipv4Addr, prepare: fn(&TcpStream)) -> TcpFlow {
        let (arrived, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let listener = within(to, move || TcpListener::bind((address, PORT)).unwrap()).join().unwrap();
        let count = Arc::clone(&arrived);
        let receiver = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = vec![0; 65_536];
            while let Ok(len @ 1..) = stream.read(&mut buffer) {
                count.fetch_add(len as u64, Ordering::Relaxed);
            }
        });
        let over = Arc::clone(&is_over);
        let sender = within(from, move || {
            let mut stream = TcpStream::connect((address, PORT)).unwrap();
            prepare(&stream);
            let block = vec![0; 65_536];
            while !over.load(Ordering::Relaxed) && stream.write_all(&block).is_ok() {}
        });
        TcpFlow { arrived, is_over, threads: vec![sender, receiver] }
    }

    /// Returns the goodput while `work` runs, in bits per second.
    pub fn goodput(&self, work: impl FnOnce()) -> f64 {
        let (before, start) = (self.arrived.load(Ordering::Relaxed), Instant::now());
        work();
        (self.arrived.load(Ordering::Relaxed) - before) as f64 * 8.0 / start.elapsed().as_secs_f64()
    }
}

impl Drop for TcpFlow {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
