//! The lab as an ordinary user in a user namespace.
//!
//! It uses packet sockets if `/dev/net/tun` is not accessible. If root runs the test, it first becomes
//! `nobody`. It is skipped with a reason if the kernel does not let ordinary users create namespaces.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use weft_lab::emulator::{EmulatedDirection, EmulatedLinkSpec, Emulator, EndSpec};
use weft_lab::net::{Lab, NetNamespace, acquire_privilege};

const NOBODY: u32 = 65_534;
const DELAY: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    // SAFETY: The call only reads the process's credentials.
    if unsafe { libc::geteuid() } == 0 {
        let this = std::env::current_exe().unwrap();
        return match Command::new(this).uid(NOBODY).gid(NOBODY).current_dir("/").status() {
            Ok(status) => {
                if status.success() {
                    ExitCode::SUCCESS
                } else {
                    ExitCode::FAILURE
                }
            }
            Err(error) => skip(&error),
        };
    }
    match acquire_privilege() {
        Ok(()) => {
            packets_cross();
            println!("an ordinary user's lab works");
            ExitCode::SUCCESS
        }
        Err(error) => skip(&error),
    }
}

fn skip(error: &std::io::Error) -> ExitCode {
    println!("skipped: {error}");
    ExitCode::SUCCESS
}

fn packets_cross() {
    let lab = Lab::new().unwrap();
    let (home, hub) = (lab.node("home").unwrap(), lab.node("hub").unwrap());
    let end = |node: &NetNamespace, host| EndSpec {
        node: node.clone(),
        interface: "wan".into(),
        ipv4: Some(Ipv4Addr::new(10, 9, 0, host)),
        ipv6: None,
    };
    let spec = EmulatedDirection { delay: DELAY, ..EmulatedDirection::default() };
    let link =
        EmulatedLinkSpec { ends: [end(&home, 1), end(&hub, 2)], mtu: 1500, forward: spec.clone(), backward: spec };
    let emulator = Emulator::start(vec![link], 1).unwrap();

    let bind = |node: &NetNamespace| node.run(|| UdpSocket::bind("0.0.0.0:9000")).unwrap().unwrap();
    let (here, there) = (bind(&home), bind(&hub));
    for socket in [&here, &there] {
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    }
    let sent = Instant::now();
    here.send_to(&[7; 1472], "10.9.0.2:9000").unwrap();
    let (length, from) = there.recv_from(&mut [0; 2000]).unwrap();
    there.send_to(b"back", from).unwrap();
    assert_eq!((length, here.recv(&mut [0; 16]).unwrap()), (1472, 4));
    assert!(sent.elapsed() >= 2 * DELAY);
    assert!(emulator.handle().snapshot().unwrap().links[0].forward.sent_bytes >= 1500);
}
