//! TUN devices with the real kernel: each packet sent into the device returns reflected.
//!
//! Reflection exchanges the source and destination addresses.

mod namespace;

use std::io::{IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use namespace::{PATIENCE, in_namespace, ip, wait_for};
use weft_io::tun::{MAX_READ_LEN, TunConfig, TunDevice, TunError, VIRTIO_HEADER_LEN};
use weft_io::udp::{Outgoing, ReceiveSlot, SendOutcome, UdpConfig, UdpLink};
use weft_io::wait::Poller;

/// Value of `virtio_net_hdr.gso_type` for TCP over IPv4 (linux/virtio_net.h).
const GSO_TCPV4: u8 = 1;
/// Value of `virtio_net_hdr.gso_type` for TCP over IPv6.
const GSO_TCPV6: u8 = 4;
/// Value of `virtio_net_hdr.gso_type` for UDP segmentation.
const GSO_UDP_L4: u8 = 5;

const HERE: [&str; 2] = ["10.9.0.1", "fd09::1"];
const THERE: [&str; 2] = ["10.9.0.2", "fd09::2"];

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn config(name: &str) -> TunConfig {
    TunConfig {
        name: Some(name.into()),
        mtu: 1400,
        addresses: vec![(address(HERE[0]), 24), (address(HERE[1]), 64)],
        alias: String::new(),
    }
}

/// Exchanges source and destination address, which keeps all checksums valid.
fn reflect(packet: &mut [u8]) {
    let (start, len) = if packet[0] >> 4 == 4 { (12, 4) } else { (8, 16) };
    let (source, rest) = packet[start..].split_at_mut(len);
    source.swap_with_slice(&mut rest[..len]);
}

/// Reads one packet or super-packet and writes it back reflected, in two parts. Returns its `gso_type` and `gso_size`.
fn reflect_one(tun: &TunDevice, buffer: &mut [u8]) -> Option<(u8, u16)> {
    let len = tun.read(buffer).unwrap()?;
    let (header, packet) = buffer[..len].split_at_mut(VIRTIO_HEADER_LEN);
    reflect(packet);
    assert!(tun.write(&[IoSlice::new(header), IoSlice::new(packet)]).unwrap());
    Some((header[1], u16::from_ne_bytes([header[4], header[5]])))
}

#[test]
fn a_device_is_as_configured() {
    in_namespace(|_| {
        let tun = TunDevice::open(&config("weft%d")).unwrap();
        assert_eq!(tun.name(), "weft0");
        println!("UDP offload: {}", tun.has_udp_offload());
        let shown = ip("addr show weft0");
        assert!(shown.starts_with(&format!("{}: weft0: ", tun.index())), "{shown}");
        for part in ["mtu 1400", "inet 10.9.0.1/24", "inet6 fd09::1/64", ",UP"] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        tun.set_mtu(1300).unwrap();
        tun.set_txqueuelen(4321).unwrap();
        let shown = ip("link show weft0");
        assert!(shown.contains("mtu 1300") && shown.contains("qlen 4321"), "{shown}");
        assert_eq!(TunDevice::open(&config("weft%d")).unwrap().name(), "weft1");
        drop(tun);
        // A program that another test starts has a copy of the descriptor until it runs.
        wait_for("end of the device", || (!ip("link").contains("weft")).then_some(()));
    });
}

#[test]
fn a_device_name_in_use_is_reported() {
    in_namespace(|_| {
        let _tun = TunDevice::open(&config("weft0")).unwrap();
        ip("link add other type veth peer name end");
        for name in ["weft0", "other"] {
            assert!(matches!(TunDevice::open(&config(name)), Err(TunError::NameInUse(taken)) if taken == name));
        }
    });
}

#[test]
fn a_missing_permission_is_reported_with_its_fix() {
    in_namespace(|_| {
        // SAFETY: no pointers. The bare system call changes only the user of this thread.
        let result = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
        assert_eq!(result, 0);
        let error = TunDevice::open(&config("weft0")).err().expect("nobody may not");
        assert!(matches!(error, TunError::NoPermission(_)), "{error}");
        assert!(error.to_string().contains("setcap cap_net_admin+ep"));
    });
}

#[test]
fn a_udp_super_packet_passes_whole() {
    in_namespace(|_| {
        let tun = TunDevice::open(&config("weft0")).unwrap();
        let mut buffer = vec![0; MAX_READ_LEN];
        namespace::wait_for_local_route(HERE[1]);
        for (here, there) in HERE.into_iter().zip(THERE) {
            let bind = || UdpLink::bind(&UdpConfig { local: Some(address(here)), ..UdpConfig::default() }).unwrap();
            let (from, mut to) = (bind(), bind());
            let contents: Vec<u8> = (0..2500).map(|index| (index % 251) as u8).collect();
            let batch = Outgoing {
                destination: SocketAddr::new(address(there), to.local_address().port()),
                source: None,
                tos: 0,
                contents: &contents,
                segment_size: Some(1000),
            };
            assert_eq!(from.send(&batch).unwrap(), SendOutcome::Sent);
            let mut slots: Vec<_> = (0..8).map(|_| ReceiveSlot::new()).collect();
            let mut datagrams: Vec<Vec<u8>> = Vec::new();
            let mut super_packets = 0;
            namespace::wait_for("the datagrams", || {
                while let Some(kind) = reflect_one(&tun, &mut buffer) {
                    super_packets += usize::from(kind == (GSO_UDP_L4, 1000));
                }
                let filled = to.receive(&mut slots).unwrap();
                slots[..filled].iter_mut().for_each(|slot| datagrams.extend(slot.datagrams().map(|d| d.to_vec())));
                (datagrams.len() >= 3).then_some(())
            });
            assert!(datagrams.iter().eq(contents.chunks(1000)));
            assert_eq!(super_packets, usize::from(tun.has_udp_offload()));
        }
    });
}

#[test]
fn tcp_super_packets_pass() {
    in_namespace(|_| {
        let tun = TunDevice::open(&config("weft0")).unwrap();
        for ((here, there), gso_type) in HERE.into_iter().zip(THERE).zip([GSO_TCPV4, GSO_TCPV6]) {
            let listener = TcpListener::bind((address(here), 0)).unwrap();
            let remote = SocketAddr::new(address(there), listener.local_addr().unwrap().port());
            let done = AtomicBool::new(false);
            let super_packets = std::thread::scope(|scope| {
                let reflector = scope.spawn(|| reflect_until(&tun, &done, gso_type));
                scope.spawn(move || send_tcp(remote));
                let received = receive_tcp(&listener);
                done.store(true, Ordering::Relaxed);
                assert!(received.iter().enumerate().all(|(index, &byte)| byte == (index % 251) as u8));
                assert_eq!(received.len(), TCP_BYTES);
                reflector.join().unwrap()
            });
            assert!(super_packets > 0, "{here}: none was a super-packet");
        }
    });
}

const TCP_BYTES: usize = 2_000_000;

fn send_tcp(remote: SocketAddr) {
    let mut stream = TcpStream::connect_timeout(&remote, PATIENCE).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let bytes: Vec<u8> = (0..TCP_BYTES).map(|index| (index % 251) as u8).collect();
    stream.write_all(&bytes).unwrap();
}

fn receive_tcp(listener: &TcpListener) -> Vec<u8> {
    listener.set_nonblocking(true).unwrap();
    let (mut stream, _) = namespace::wait_for("a connection", || listener.accept().ok());
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    received
}

/// Reflects packets until `done` is set. Returns the number of super-packets of the expected type.
fn reflect_until(tun: &TunDevice, done: &AtomicBool, expected: u8) -> usize {
    let mut poller = Poller::new().unwrap();
    poller.add(tun.as_raw_fd(), 0).unwrap();
    let (mut buffer, mut ready, mut super_packets) = (vec![0; MAX_READ_LEN], Vec::new(), 0);
    while !done.load(Ordering::Relaxed) {
        poller.wait(Some(std::time::Duration::from_millis(10)), &mut ready).unwrap();
        while let Some((gso_type, _)) = reflect_one(tun, &mut buffer) {
            super_packets += usize::from(gso_type & 0x7f == expected);
        }
    }
    super_packets
}
