//! Lines of the state files and of OpenVPN's server.
//!
//! Every parsed line is written again with the same meaning.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_config::openvpn_status::Session;
use weft_config::state_lines::{MAX_STAMP, parse_accepted, parse_client, parse_stamp};
use weft_session::{Certificate, Revocation};

fuzz_target!(|line: &str| {
    if let Some(stamp) = parse_stamp(line) {
        assert!(stamp <= MAX_STAMP);
    }
    if let Some((key, stamp)) = parse_accepted(line) {
        assert_eq!(parse_accepted(&format!("{key} {stamp}")), Some((key, stamp)));
    }
    if let Some((name, address, key)) = parse_client(line) {
        assert!(!name.chars().any(|c| c.is_whitespace() || c.is_control()), "{name:?}");
        assert_eq!(parse_client(&format!("{name} {address} {key}")), Some((name, address, key)));
    }
    if let Ok(revocation) = line.parse::<Revocation>() {
        assert_eq!(revocation.to_string().parse(), Ok(revocation));
    }
    if let Ok(certificate) = line.parse::<Certificate>() {
        assert_eq!(certificate.to_string().parse(), Ok(certificate));
    }
    if let Some(session) = Session::parse(line) {
        assert!(!session.common_name.contains(','), "{session:?}");
    }
});
