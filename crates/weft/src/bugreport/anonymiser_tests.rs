use super::*;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv6Addr};

/// All words that the labels in place of names and addresses consist of.
const VOCABULARY: &str = "peer- host- user- vpn- rule- key- mac- addr- -loopback4 -shared4 -link-local4 -multicast4 \
                          -private4 -public4 -loopback6 -multicast6 -link-local6 -private6 -public6 (hidden)";

/// A name or an address as it stands in a text.
///
/// Two items with equal `identity` are one name or address in two notations, and must get one label.
#[derive(Clone, Debug)]
struct Item {
    text: String,
    identity: String,
    is_name: bool,
}

fn ip() -> impl Strategy<Value = IpAddr> {
    const STARTS: [&[u8]; 8] =
        [&[], &[10], &[100, 64], &[127], &[192, 168], &[0xfe, 0x80], &[0xfd], &[0x20, 0x01, 0xd, 0xb8]];
    let v4 = (prop::sample::select(&STARTS[..5]), any::<[u8; 4]>()).prop_map(|(start, mut octets)| {
        octets[..start.len()].copy_from_slice(start);
        IpAddr::from(octets)
    });
    let zeros = prop::sample::select(vec![0usize, 4, 8, 12]);
    let v6 = (prop::sample::select(&STARTS[..]), any::<[u8; 16]>(), zeros).prop_map(|(start, mut octets, zeros)| {
        octets[16 - zeros - 4..12].fill(0);
        octets[..start.len()].copy_from_slice(start);
        IpAddr::from(Ipv6Addr::from(octets))
    });
    prop_oneof![v4, v6].prop_filter("`any` is kept", |ip| !ip.is_unspecified() && !ip.to_canonical().is_unspecified())
}

fn item() -> impl Strategy<Value = Item> {
    let ip = ip().prop_map(|ip| Item { text: ip.to_string(), identity: ip.to_canonical().to_string(), is_name: false });
    let mac = (any::<[u8; 6]>(), any::<bool>(), any::<bool>()).prop_map(|(bytes, has_dashes, is_upper)| {
        let pairs = bytes.map(|byte| if is_upper { format!("{byte:02X}") } else { format!("{byte:02x}") });
        let text = pairs.join(if has_dashes { "-" } else { ":" });
        Item { text, identity: format!("{bytes:x?}"), is_name: false }
    });
    let name = "[\\p{L}][\\p{L}0-9]{1,5}(-[\\p{L}0-9]{1,5})?".prop_filter("labels contain it", |name| {
        !VOCABULARY.contains(&name.chars().flat_map(char::to_lowercase).collect::<String>())
    });
    let name = name.prop_map(|text| {
        let identity = text.chars().flat_map(char::to_lowercase).collect();
        Item { text, identity, is_name: true }
    });
    prop_oneof![ip, mac, name]
}

fn join(texts: impl Iterator<Item = String>, separators: &[&str]) -> String {
    texts.zip(separators.iter().cycle()).fold(String::new(), |all, (text, separator)| all + &text + separator)
}

proptest! {
    #[test]
    fn labels_are_equal_exactly_for_equal_inputs_and_hide_them(
        items in prop::collection::vec(item(), 1..12),
        again in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        separators in prop::collection::vec(prop::sample::select(vec![" ", ", ", " (", ")=", "\n", "\t", "\"", "; "]), 1..12),
    ) {
        let repeated: Vec<_> = again.iter().map(|index| index.get(&items).clone()).collect();
        let items = [items, repeated].concat();
        let mut anonymiser = Anonymiser::new(Disclosure::Public);
        items.iter().filter(|item| item.is_name).for_each(|item| anonymiser.add_name(NameKind::Peer, &item.text));
        let out = anonymiser.text(&join(items.iter().map(|item| item.text.clone()), &separators));
        let labels: Vec<_> = items.iter().map(|item| anonymiser.text(&item.text)).collect();
        prop_assert_eq!(&out, &join(labels.iter().cloned(), &separators));
        for (a, label) in items.iter().zip(&labels) {
            prop_assert!(!out.contains(&a.text), "{:?} in {out:?}", a.text);
            for (b, other) in items.iter().zip(&labels) {
                prop_assert_eq!(a.identity == b.identity, label == other, "{:?} {:?}", a, b);
            }
        }
    }

    #[test]
    fn a_key_or_code_is_hidden_at_each_level(bytes: [u8; 32], around in "[ =:,\"'({\n]", level in 0..2) {
        let level = [Disclosure::Public, Disclosure::Trusted][level as usize];
        let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        for secret in [Base64::encode_string(&bytes), format!("weft1-{}", Base64UrlUnpadded::encode_string(&bytes)), hex] {
            let out = Anonymiser::new(level).text(&format!("key{around}{secret} end"));
            prop_assert_eq!(out, format!("key{around}{HIDDEN} end"));
        }
    }

    #[test]
    fn any_text_is_anonymised_without_a_panic(text in ".{0,200}", name in ".{0,9}", secret in ".{0,9}") {
        let mut anonymiser = Anonymiser::new(Disclosure::Public);
        anonymiser.add_name(NameKind::Host, &name);
        anonymiser.add_secret(&secret);
        let out = anonymiser.text(&format!("{text}{secret}{text}"));
        prop_assert!(secret.len() < LEAST_SECRET || HIDDEN.contains(&secret) || VOCABULARY.contains(&secret) || !out.contains(&secret));
    }
}

#[test]
fn labels_tell_the_kind_of_an_address_and_ordinary_words_stay() {
    let mut anonymiser = Anonymiser::new(Disclosure::Public);
    anonymiser.add_name(NameKind::Peer, "hub");
    let mut text = |text: &str| anonymiser.text(text);
    assert_eq!(text("peer hub: 192.168.1.2:51900 over eth0"), "peer peer-1: addr-1-private4:51900 over eth0");
    assert_eq!(text("100.64.0.1/32 8.8.8.8 192.168.1.2"), "addr-2-shared4/32 addr-3-public4 addr-1-private4");
    assert_eq!(
        text("[fe80::1%eth0]:9 ::1 [2001:db8::1]:9"),
        "[addr-4-link-local6%eth0]:9 addr-5-loopback6 [addr-6-public6]:9"
    );
    assert_eq!(text("alice@example.org of www.example.net, /home/bob/x"), "user-1@host-1 of host-2, /home/user-2/x");
    assert_eq!(text("enx0011AAbbcc22 00:11:aa:bb:cc:22"), "mac-1 mac-1");
    for same in [
        "2026-11-27T17:15:01.123Z 0.0.0.0/0 [::]:51900 6.1.0-18-amd64",
        "/etc/weft/weft.toml net.ipv4.ip_forward /proc/sys/net/ipv4/conf/enp0s31f6/rp_filter",
        "weighted-round-robin table inet weft_kill_weft0 hubs github CAP_NET_ADMIN 1.5 Mbit/s",
    ] {
        assert_eq!(text(same), same);
    }
    let mut trusted = Anonymiser::new(Disclosure::Trusted);
    trusted.add_name(NameKind::Peer, "hub");
    let shown = "peer hub: 192.168.1.2 alice@example.org 00:11:aa:bb:cc:22";
    assert_eq!(trusted.text(shown), shown);
    assert_eq!(trusted.text("http://alice:pw@proxy.example.org:3128/"), "http://(hidden)@proxy.example.org:3128/");
}
