//! Parses the kernel's messages about packets in a netfilter queue.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_io::netfilter::Queued;

fuzz_target!(|bytes: &[u8]| {
    let mut datagram = bytes.to_vec();
    let mut handed_over = 0;
    Queued::each_in(&mut datagram, |queued| {
        handed_over += queued.packet.len();
        queued.packet.fill(0xff);
    });
    assert!(handed_over <= bytes.len(), "no byte is in two packets");
    assert_eq!(datagram.len(), bytes.len());
});
