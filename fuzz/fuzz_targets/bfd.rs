//! Messages of FRR's `bfdd`, and the kernel's messages about routes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_io::netlink::{RouteEvent, read_route};
use weft_wire::bfd_dataplane::{DataplaneReply, DataplaneRequest, MAX_MESSAGE, message_len};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = DataplaneRequest::decode(bytes) {
        assert_eq!(message_len(bytes), Ok(Some(bytes.len())));
        if let DataplaneRequest::Echo { request, times } = request {
            let mut out = [0; MAX_MESSAGE];
            let len = DataplaneReply::Echo { request, times }.encode(&mut out).unwrap();
            assert_eq!(&out[8..len], &bytes[8..]);
        }
    }
    if let Some(RouteEvent::Added(route) | RouteEvent::Removed(route)) = read_route(bytes, &[7]) {
        assert_eq!(route.index, 7);
        assert!(route.prefix_len <= if route.destination.is_ipv6() { 128 } else { 32 });
    }
});
