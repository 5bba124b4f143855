//! Files that a node reads when it starts: usage of links with quotas, its key, and keys of OpenVPN's authority.
//!
//! Parsed content is written and parsed again, with the same meaning. Usage goes on being counted from any content.
#![no_main]
#![allow(dead_code, reason = "the modules of the daemon have more users than this target")]

#[path = "../../crates/weft/src/date.rs"]
mod date;
#[path = "../../crates/weft/src/access/openvpn/pem.rs"]
mod pem;
#[path = "../../crates/weft/src/daemon/quota/mod.rs"]
mod quota;

use libfuzzer_sys::fuzz_target;
use quota::Quotas;
use std::path::Path;
use weft_config::config::{self, At, Link, LinkTcp, Quota, QuotaPeriod, QuotaReached};
use weft_config::keys;

/// Most periods that are kept of a link.
const KEPT: usize = 16;

fn parse(text: &str) -> Quotas {
    Quotas::parse(&text.lines().map(str::to_owned).collect::<Vec<_>>())
}

/// Counts a link's usage twice, from the stored usage on.
fn count(text: &str) {
    let mut quotas = parse(text);
    let lines = quotas.lines();
    assert_eq!(parse(&lines), quotas, "{lines}");
    let name = text.split_whitespace().nth(1).unwrap_or("eth0").to_owned();
    let unix_s = text.len() as u64 * 1_000_003;
    let per = if text.len() % 2 == 0 { QuotaPeriod::Day } else { QuotaPeriod::Month };
    let quota = Quota { bytes: 1_000, per, first_day: 2, reached: QuotaReached::Never };
    let link = Link {
        name: At { value: name, span: 0..0 },
        max_rate_up: None,
        max_rate_up_at: Vec::new(),
        up: true,
        tier: None,
        quota: Some(quota),
        tcp: LinkTcp::default(),
    };
    let links = [link];
    quotas.look(unix_s, "boot", &links, |_| Some(100));
    let before = quotas.used(unix_s, &links[0].name.value, &quota);
    quotas.look(unix_s, "boot", &links, |_| Some(107));
    assert_eq!(quotas.used(unix_s, &links[0].name.value, &quota), before.saturating_add(7));
    let periods = |line: &&str| line.starts_with("used ") && line.split(' ').nth(1) == Some(&links[0].name.value);
    assert!(quotas.lines().lines().filter(periods).count() <= KEPT);
}

fuzz_target!(|text: &str| {
    count(text);
    let _ = quota::counters(text);
    if let Ok(identity) = keys::load_from_stream(text.as_bytes(), Path::new("key")) {
        let again = keys::load_from_stream(identity.secret_to_base64().as_bytes(), Path::new("key"));
        assert_eq!(again.map(|identity| identity.public_key()).ok(), Some(identity.public_key()));
    }
    if let Some(der) = pem::decode(text) {
        assert_eq!(pem::decode(&pem::encode(pem::PRIVATE_KEY, &der)), Some(der));
    }
});
