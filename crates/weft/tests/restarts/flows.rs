//! Flows through the tunnel that record when data arrives, and whether their sockets fail.

use crate::common::inside::within;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The interval without data above which it is recorded. Sparse flows send every 15 ms.
const SILENCE_MIN: Duration = Duration::from_millis(30);
/// Interval of the packets and small writes of sparse flows.
const SPARSE: Duration = Duration::from_millis(15);
/// Maximum time in one call on a socket, after which the thread looks whether the test is over.
const PATIENCE: Duration = Duration::from_millis(200);
/// Period of the bytes of a stream. It is prime, so that a lost or repeated block shows.
const PERIOD: usize = 251;

/// What a flow sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A TCP connection that sends as fast as it can.
    Bulk,
    /// A TCP connection that sends 100 bytes at each interval, such as ssh.
    Session,
    /// A datagram at each interval, such as a call.
    Call,
}

/// An interval without data.
#[derive(Clone, Copy, Debug)]
pub struct Silence {
    pub begin: Instant,
    pub end: Instant,
}

struct Arrivals {
    last: Instant,
    silences: Vec<Silence>,
    fault: Option<String>,
}

/// A flow in one direction. Dropping it ends its threads.
pub struct Flow {
    pub name: String,
    pub kind: Kind,
    arrivals: Arc<Mutex<Arrivals>>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// A node and its address in the tunnel.
pub type End = (&'static str, Ipv4Addr);

impl Flow {
    /// Starts a flow between two nodes to a port that no other flow uses.
    pub fn start(kind: Kind, from: End, to: End, port: u16) -> Flow {
        let arrivals = Arc::new(Mutex::new(Arrivals { last: Instant::now(), silences: Vec::new(), fault: None }));
        let side = || Side { arrivals: Arc::clone(&arrivals), is_over: Arc::new(AtomicBool::new(false)) };
        let (sender, mut receiver) = (side(), side());
        receiver.is_over = Arc::clone(&sender.is_over);
        let is_over = Arc::clone(&sender.is_over);
        let address = (to.1, port);
        let threads = if kind == Kind::Call {
            let socket = within(to.0, move || UdpSocket::bind(address).unwrap()).join().unwrap();
            let own = from.1;
            let sends = within(from.0, move || sender.send_datagrams(&UdpSocket::bind((own, 0)).unwrap(), address));
            vec![sends, thread::spawn(move || receiver.receive_datagrams(&socket))]
        } else {
            let listener = within(to.0, move || TcpListener::bind(address).unwrap()).join().unwrap();
            let stream = within(from.0, move || TcpStream::connect(address).unwrap()).join().unwrap();
            let (accepted, _) = listener.accept().unwrap();
            vec![
                thread::spawn(move || sender.send_stream(stream, kind)),
                thread::spawn(move || receiver.receive_stream(accepted)),
            ]
        };
        Flow { name: format!("{kind:?} {} → {}", from.0, to.0), kind, arrivals, is_over, threads }
    }

    /// Returns the recorded intervals without data, and the present one as it stands.
    pub fn silences(&self) -> Vec<Silence> {
        let arrivals = self.arrivals.lock().unwrap();
        let present = Silence { begin: arrivals.last, end: Instant::now() };
        arrivals.silences.iter().copied().chain([present]).collect()
    }

    /// Forgets the recorded intervals.
    pub fn forget(&self) {
        self.arrivals.lock().unwrap().silences.clear();
    }

    /// Returns the error of a socket, or wrong data.
    pub fn fault(&self) -> Option<String> {
        self.arrivals.lock().unwrap().fault.clone()
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// One end of a flow in its thread.
struct Side {
    arrivals: Arc<Mutex<Arrivals>>,
    is_over: Arc<AtomicBool>,
}

/// True if the call only took too long.
fn is_late(why: &std::io::Error) -> bool {
    matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

impl Side {
    fn fail(&self, what: String) {
        if !self.is_over.load(Relaxed) {
            self.arrivals.lock().unwrap().fault.get_or_insert(what);
        }
    }

    fn note_arrival(&self) {
        let (now, mut arrivals) = (Instant::now(), self.arrivals.lock().unwrap());
        let silence = Silence { begin: arrivals.last, end: now };
        if silence.end - silence.begin > SILENCE_MIN {
            arrivals.silences.push(silence);
        }
        arrivals.last = now;
    }

    fn send_stream(&self, mut stream: TcpStream, kind: Kind) {
        stream.set_nodelay(true).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let block: Vec<u8> = (0..65_536 + PERIOD).map(|at| (at % PERIOD) as u8).collect();
        let len = if kind == Kind::Bulk { 65_536 } else { 100 };
        let mut sent = 0;
        while !self.is_over.load(Relaxed) {
            match stream.write(&block[sent % PERIOD..][..len]) {
                Ok(len) => sent += len,
                Err(why) if is_late(&why) => {}
                Err(why) => return self.fail(format!("send: {why}")),
            }
            if kind == Kind::Session {
                thread::sleep(SPARSE);
            }
        }
    }

    fn receive_stream(&self, mut stream: TcpStream) {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let expected: Vec<u8> = (0..65_536 + PERIOD).map(|at| (at % PERIOD) as u8).collect();
        let (mut buffer, mut received) = (vec![0; 65_536], 0);
        while !self.is_over.load(Relaxed) {
            match stream.read(&mut buffer) {
                Ok(0) => return self.fail("receive: the connection ended".to_owned()),
                Ok(len) if buffer[..len] == expected[received % PERIOD..][..len] => received += len,
                Ok(_) => return self.fail(format!("receive: wrong bytes after {received}")),
                Err(why) if is_late(&why) => continue,
                Err(why) => return self.fail(format!("receive: {why}")),
            }
            self.note_arrival();
        }
    }

    fn send_datagrams(&self, socket: &UdpSocket, to: (Ipv4Addr, u16)) {
        while !self.is_over.load(Relaxed) {
            // A datagram that the machine cannot send is lost, as on any network.
            let _ = socket.send_to(&[0; 160], to);
            thread::sleep(SPARSE);
        }
    }

    fn receive_datagrams(&self, socket: &UdpSocket) {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut buffer = [0; 256];
        while !self.is_over.load(Relaxed) {
            match socket.recv(&mut buffer) {
                Ok(_) => self.note_arrival(),
                Err(why) if is_late(&why) => {}
                Err(why) => return self.fail(format!("receive: {why}")),
            }
        }
    }
}
