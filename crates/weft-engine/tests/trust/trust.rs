//! Peers that join by certificate: admission, refusal, and the time until all nodes have learnt a revocation.

use crate::mesh::{Knows, Mesh, Wire, config, inner, key, wire};
use weft_engine::{
    Clash, Engine, Event, LinkEvent, Outside, PeerConfig, Policy, Prefix, Rejection, RevokeError, TrustConfig,
};
use weft_session::{Certificate, CertificateError, Claims, Identity, RootKey};
use weft_units::{Duration, Instant, LinkId};

/// Wall clock at the start of a test, in seconds since 1970.
const NOW_UNIX_S: u64 = 1_800_000_000;
const HUB: usize = 0;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn root() -> RootKey {
    RootKey::from_seed([99; 32])
}

fn claims(node: usize) -> Claims {
    Claims {
        public_key: key(node),
        name: format!("n{node}"),
        not_before_unix_s: NOW_UNIX_S - 100,
        not_after_unix_s: NOW_UNIX_S + 10_000,
        may_relay: false,
        prefixes: vec![(inner(node).into(), 32)],
        groups: vec![],
    }
}

fn trust(certificate: Option<Certificate>, own: usize) -> TrustConfig {
    TrustConfig {
        root: root().public_key(),
        certificate,
        own: vec![inner(own).into()],
        policy: Policy::default(),
        revocations: Vec::new(),
    }
}

fn certified(claims: &Claims) -> Certificate {
    root().sign(claims).unwrap()
}

/// Returns a hub without configured peers, and home nodes that have the hub as a peer and show the certificates in
/// `shows`.
fn star(shows: &[Option<Certificate>]) -> Mesh {
    let wires: Vec<Wire> = (1..=shows.len()).map(|home| wire(HUB, home)).collect();
    let home = || Knows { direct: vec![HUB], ..Knows::default() };
    let knows: Vec<Knows> = std::iter::once(Knows::default()).chain(shows.iter().map(|_| home())).collect();
    let mut mesh = Mesh::new(&wires, &knows);
    let now = mesh.now;
    mesh.nodes[HUB].set_trust(now, NOW_UNIX_S, Some(trust(None, HUB)));
    for (home, certificate) in (1..).zip(shows) {
        mesh.nodes[home].set_trust(now, NOW_UNIX_S, Some(trust(certificate.clone(), home)));
    }
    mesh
}

/// Returns the names of the peers with which a node has a session.
fn sessions(mesh: &Mesh, node: usize) -> Vec<String> {
    let peers = mesh.nodes[node].snapshot(mesh.now).peers;
    peers.into_iter().filter(|peer| peer.established_for.is_some()).map(|peer| peer.name).collect()
}

fn has_session(mesh: &Mesh, node: usize, with: usize) -> bool {
    sessions(mesh, node).contains(&format!("n{with}"))
}

fn refusals(mesh: &Mesh, node: usize) -> Vec<Rejection> {
    let of = |(at, _, event): &(usize, Instant, Event)| match event {
        Event::Refused { why, .. } if *at == node => Some(why.clone()),
        _ => None,
    };
    mesh.events.iter().filter_map(of).collect()
}

fn exchange(mesh: &mut Mesh, a: usize, b: usize) {
    mesh.take_numbers(a);
    mesh.take_numbers(b);
    for number in 0..20 {
        mesh.send(a, b, number, 800);
        mesh.send(b, a, number, 800);
        mesh.run_for(ms(2));
    }
    mesh.run_for(ms(500));
    for node in [a, b] {
        assert_eq!(mesh.take_numbers(node), (0..20).collect::<Vec<_>>(), "at {node}");
    }
}

#[test]
fn homes_join_a_hub_without_configured_peers() {
    let mut mesh = star(&[Some(certified(&claims(1))), Some(certified(&claims(2)))]);
    mesh.run_for(ms(2_000));
    assert!(has_session(&mesh, HUB, 1) && has_session(&mesh, HUB, 2));
    exchange(&mut mesh, HUB, 1);
    exchange(&mut mesh, HUB, 2);
    let hub = mesh.nodes[HUB].snapshot(mesh.now);
    assert!(hub.peers.iter().all(|peer| peer.certified_until_unix_s == Some(NOW_UNIX_S + 10_000)));
    let joined = mesh.events.iter().filter(|(node, _, event)| *node == HUB && matches!(event, Event::Joined { .. }));
    assert_eq!(joined.count(), 2);
}

#[test]
fn whose_certificate_does_not_hold_gets_silence_and_costs_no_state() {
    let expired = Claims { not_after_unix_s: NOW_UNIX_S - 1, ..claims(1) };
    let early = Claims { not_before_unix_s: NOW_UNIX_S + 1_000, ..claims(1) };
    let report = |why| vec![Rejection::Certificate(why)];
    for (shown, reported) in [
        (None, Vec::new()),
        (Some(RootKey::from_seed([98; 32]).sign(&claims(1)).unwrap()), Vec::new()),
        (Some(certified(&claims(2))), Vec::new()),
        (Some(certified(&expired)), report(CertificateError::Expired)),
        (Some(certified(&early)), report(CertificateError::NotYetValid)),
    ] {
        let mut mesh = star(&[shown]);
        mesh.run_for(ms(10_000));
        assert!(sessions(&mesh, HUB).is_empty() && sessions(&mesh, 1).is_empty());
        assert!(mesh.nodes[HUB].snapshot(mesh.now).peers.is_empty());
        assert!(mesh.nodes[HUB].rejected_datagrams() > 5, "silence, whatever is tried");
        assert_eq!(refusals(&mesh, HUB), reported, "told once");
    }
}

#[test]
fn a_hub_without_a_root_key_trusts_no_certificate() {
    let mut mesh = star(&[Some(certified(&claims(1)))]);
    mesh.nodes[HUB].set_trust(mesh.now, NOW_UNIX_S, None);
    mesh.run_for(ms(5_000));
    assert!(mesh.nodes[HUB].snapshot(mesh.now).peers.is_empty() && refusals(&mesh, HUB).is_empty());
    let revocation = root().revoke(&key(1), NOW_UNIX_S);
    assert_eq!(mesh.nodes[HUB].revoke(mesh.now, &revocation), Err(RevokeError::NoRoot));
}

/// Lets home 1 join, and then home 2 with these claims. Returns the hub's reasons for refusing home 2.
fn second_comer(claims_of_2: &Claims) -> Vec<Rejection> {
    let mut mesh = star(&[Some(certified(&claims(1))), Some(certified(claims_of_2))]);
    mesh.wires[1].cut = true;
    mesh.run_for(ms(2_000));
    mesh.wires[1].cut = false;
    mesh.run_for(ms(5_000));
    assert!(has_session(&mesh, HUB, 1));
    assert_eq!(mesh.nodes[HUB].certified_peers().count(), 1 + usize::from(has_session(&mesh, HUB, 2)));
    exchange(&mut mesh, HUB, 1);
    refusals(&mesh, HUB)
}

#[test]
fn a_name_or_a_prefix_claimed_twice_is_refused_and_nothing_changes() {
    let claim = |prefix: &str, length| Claims { prefixes: vec![(prefix.parse().unwrap(), length)], ..claims(2) };
    let meets = |prefix: &str, length, with: Option<&str>| {
        let prefix = Prefix { address: prefix.parse().unwrap(), length };
        vec![Rejection::Overlap { prefix, with: with.map(Into::into) }]
    };
    assert_eq!(second_comer(&claims(2)), []);
    assert_eq!(second_comer(&Claims { name: "n1".into(), ..claims(2) }), [Rejection::Name]);
    assert_eq!(second_comer(&claim("10.9.0.2", 32)), meets("10.9.0.2", 32, Some("n1")));
    assert_eq!(second_comer(&claim("10.9.0.2", 31)), meets("10.9.0.2", 31, Some("n1")));
    assert_eq!(second_comer(&claim("10.9.0.1", 32)), meets("10.9.0.1", 32, None), "the hub's own address");
    assert_eq!(second_comer(&claim("0.0.0.0", 0)), [], "a default route lies around all others");
}

#[test]
fn the_configuration_overrides_certificates() {
    // Home 1 is configured with another name and prefix than in its certificate. The claims of home 2 are configured
    // for another peer.
    let wires = [wire(HUB, 1), wire(HUB, 2)];
    let home = || Knows { direct: vec![HUB], ..Knows::default() };
    let mut mesh = Mesh::new(&wires, &[Knows { direct: vec![1], ..Knows::default() }, home(), home()]);
    let now = mesh.now;
    mesh.nodes[HUB].set_trust(now, NOW_UNIX_S, Some(trust(None, HUB)));
    let other = Claims { name: "other".into(), prefixes: vec![(inner(7).into(), 32)], ..claims(1) };
    mesh.nodes[1].set_trust(now, NOW_UNIX_S, Some(trust(Some(certified(&other)), 1)));
    let taken = Claims { prefixes: vec![(inner(1).into(), 32)], ..claims(2) };
    mesh.nodes[2].set_trust(now, NOW_UNIX_S, Some(trust(Some(certified(&taken)), 2)));
    mesh.run_for(ms(5_000));
    assert_eq!(sessions(&mesh, HUB), ["n1"]);
    assert_eq!(mesh.nodes[HUB].certified_peers().count(), 0);
    let prefix = Prefix { address: inner(1).into(), length: 32 };
    assert_eq!(refusals(&mesh, HUB), [Rejection::Overlap { prefix, with: Some("n1".into()) }]);
    exchange(&mut mesh, HUB, 1);
}

fn configured(node: usize, prefix: std::net::Ipv4Addr) -> PeerConfig {
    PeerConfig {
        preshared_key: None,
        name: format!("n{node}"),
        public_key: key(node),
        endpoints: Vec::new(),
        routes: Vec::new(),
        prefixes: vec![Prefix { address: prefix.into(), length: 32 }],
        policy: Policy::default(),
    }
}

#[test]
fn a_reload_leaves_certified_peers_alone_unless_it_says_otherwise() {
    let mut mesh = star(&[Some(certified(&claims(1))), Some(certified(&claims(2)))]);
    mesh.run_for(ms(2_000));
    let reload = |mesh: &mut Mesh, peers| {
        let now = mesh.now;
        mesh.nodes[HUB].reconfigure(now, peers, Vec::new(), Vec::new(), None).unwrap();
        mesh.run_for(ms(500));
    };
    reload(&mut mesh, Vec::new());
    exchange(&mut mesh, HUB, 1);
    // Home 1 becomes a configured peer. The prefix of home 2 is assigned to another peer.
    reload(&mut mesh, vec![configured(1, inner(1)), configured(9, inner(2))]);
    assert!(has_session(&mesh, HUB, 1) && !has_session(&mesh, HUB, 2));
    assert_eq!(mesh.nodes[HUB].certified_peers().count(), 0);
    exchange(&mut mesh, HUB, 1);
    reload(&mut mesh, Vec::new());
    mesh.run_for(ms(3_000));
    assert_eq!(mesh.nodes[HUB].certified_peers().count(), 2, "both come again by certificate");
}

#[test]
fn a_certificate_ends_its_session_when_it_expires_and_a_new_one_prolongs_it() {
    let short = Claims { not_after_unix_s: NOW_UNIX_S + 200, ..claims(1) };
    let mut mesh = star(&[Some(certified(&short)), Some(certified(&Claims { name: "n2".into(), ..short_of(2, 200) }))]);
    mesh.run_for(ms(2_000));
    assert!(has_session(&mesh, HUB, 1) && has_session(&mesh, HUB, 2));
    // Only home 1 gets a new certificate, with an additional prefix. It shows it in the next handshake, after two
    // minutes.
    let mut renewed = claims(1);
    renewed.prefixes.push((inner(5).into(), 32));
    let now = mesh.now;
    mesh.nodes[1].set_trust(now, NOW_UNIX_S, Some(trust(Some(certified(&renewed)), 1)));
    mesh.run_for(Duration::from_secs(150));
    let until: Vec<_> = mesh.nodes[HUB].certified_peers().map(|of| of.certificate.claims().not_after_unix_s).collect();
    assert_eq!(until, [NOW_UNIX_S + 10_000, NOW_UNIX_S + 200]);
    mesh.run_for(Duration::from_secs(60));
    assert!(has_session(&mesh, HUB, 1) && !has_session(&mesh, HUB, 2));
    let lost = |(node, _, event): &&(usize, Instant, Event)| *node == HUB && matches!(event, Event::Lost { .. });
    assert_eq!(mesh.events.iter().filter(lost).count(), 1, "home 1's session went on");
    exchange(&mut mesh, HUB, 1);
}

fn short_of(node: usize, seconds: u64) -> Claims {
    Claims { not_after_unix_s: NOW_UNIX_S + seconds, ..claims(node) }
}

#[test]
fn a_certified_peer_silent_for_minutes_is_removed_and_may_return() {
    let mut mesh = star(&[Some(certified(&claims(1)))]);
    mesh.run_for(ms(2_000));
    mesh.wires[0].cut = true;
    // The key lives for three minutes, and a peer without a session for three more.
    mesh.run_for(Duration::from_secs(300));
    assert_eq!(mesh.nodes[HUB].certified_peers().count(), 1);
    mesh.run_for(Duration::from_secs(90));
    assert_eq!(mesh.nodes[HUB].certified_peers().count(), 0);
    mesh.wires[0].cut = false;
    mesh.run_for(Duration::from_secs(30));
    assert!(has_session(&mesh, HUB, 1));
    exchange(&mut mesh, HUB, 1);
}

#[test]
fn an_old_initiation_of_a_removed_peer_adds_no_peer() {
    let mut mesh = star(&[Some(certified(&claims(1)))]);
    mesh.seen = Some(Vec::new());
    mesh.run_for(ms(2_000));
    let seen = mesh.seen.take().unwrap();
    let (_, initiation) = seen.iter().find(|(from, bytes)| *from == 1 && bytes[0] == 0x11).unwrap();
    mesh.wires[0].cut = true;
    mesh.run_for(Duration::from_secs(400));
    assert_eq!(mesh.nodes[HUB].certified_peers().count(), 0);
    deliver(&mut mesh.nodes[HUB], mesh.now, initiation);
    assert_eq!(mesh.nodes[HUB].certified_peers().count(), 0);
    assert!(mesh.nodes[HUB].accepted_stamps().next().is_none());
}

/// Delivers a datagram to a node from an arbitrary address.
fn deliver(node: &mut Engine, now: Instant, bytes: &[u8]) {
    let buf = node.pool().alloc_large().unwrap();
    node.pool().bytes_mut(buf)[..bytes.len()].copy_from_slice(bytes);
    let source = "192.0.2.77:4000".parse().unwrap();
    let (link, len) = (LinkId(1), bytes.len());
    node.handle_datagrams(
        now,
        weft_engine::Received { at: now, link, source, destination: None, tos: 0, buf, len, stride: len },
    );
}

/// Returns the configured chain 0 – 1 – 2, and home 3 with a certificate at 1 and 2.
fn chain() -> Mesh {
    let wires = [wire(0, 1), wire(1, 2), wire(1, 3), wire(2, 3)];
    let direct = |direct: &[usize]| Knows { direct: direct.to_vec(), ..Knows::default() };
    let mut mesh = Mesh::new(&wires, &[direct(&[1]), direct(&[0, 2]), direct(&[1]), direct(&[1, 2])]);
    let now = mesh.now;
    for node in 0..3 {
        mesh.nodes[node].set_trust(now, NOW_UNIX_S, Some(trust(None, node)));
    }
    mesh.nodes[3].set_trust(now, NOW_UNIX_S, Some(trust(Some(certified(&claims(3))), 3)));
    mesh
}

#[test]
fn a_revocation_holds_everywhere_within_two_seconds() {
    for loss in [0.0, 0.2] {
        let mut mesh = chain();
        mesh.run_for(ms(3_000));
        assert!(has_session(&mesh, 1, 3) && has_session(&mesh, 2, 3));
        mesh.wires.iter_mut().for_each(|wire| wire.loss = loss);
        let revocation = root().revoke(&key(3), NOW_UNIX_S + 3);
        let (now, revoked_at) = (mesh.now, mesh.now);
        assert_eq!(mesh.nodes[0].revoke(now, &revocation), Ok(true));
        assert_eq!(mesh.nodes[0].revoke(now, &revocation), Ok(false));
        mesh.run_for(ms(2_000));
        assert!(!has_session(&mesh, 1, 3) && !has_session(&mesh, 2, 3), "loss {loss}");
        assert!(has_session(&mesh, 0, 1) && has_session(&mesh, 1, 2));
        for node in 0..3 {
            let known = mesh.events.iter().filter(|(of, _, event)| *of == node && matches!(event, Event::Revoked(_)));
            assert_eq!(known.count(), 1, "told once at {node}");
        }
        let last =
            mesh.events.iter().filter(|(_, _, event)| matches!(event, Event::Revoked(_))).map(|(_, at, _)| *at).max();
        eprintln!("loss {loss}: known everywhere after {:?}", last.unwrap() - revoked_at);
        mesh.run_for(Duration::from_secs(30));
        assert!(!has_session(&mesh, 1, 3) && !has_session(&mesh, 2, 3), "and stays out");
        assert_eq!(refusals(&mesh, 1), [Rejection::Certificate(CertificateError::Revoked)]);
    }
}

#[test]
fn a_returning_node_learns_of_revocations() {
    let mut mesh = chain();
    mesh.wires[1].cut = true;
    mesh.run_for(ms(3_000));
    assert!(has_session(&mesh, 2, 3) && !has_session(&mesh, 1, 2));
    // More revocations than fit into one datagram, with the decisive one among them.
    for n in 0..100 {
        let stranger = Identity::from_secret([n + 100; 32]).public_key();
        let revoked = if n == 60 { key(3) } else { stranger };
        let revocation = root().revoke(&revoked, NOW_UNIX_S);
        let now = mesh.now;
        assert_eq!(mesh.nodes[0].revoke(now, &revocation), Ok(true));
    }
    mesh.run_for(ms(2_000));
    assert!(!has_session(&mesh, 1, 3) && has_session(&mesh, 2, 3));
    mesh.wires[1].cut = false;
    mesh.run_for(ms(5_000));
    assert!(has_session(&mesh, 1, 2) && !has_session(&mesh, 2, 3));
    let known = mesh.events.iter().filter(|(node, _, event)| *node == 2 && matches!(event, Event::Revoked(_)));
    assert_eq!(known.count(), 100);
}

#[test]
fn revocations_from_before_a_restart_count_and_are_sent_to_others() {
    let mut mesh = chain();
    let revoked = vec![root().revoke(&key(3), NOW_UNIX_S), RootKey::from_seed([98; 32]).revoke(&key(1), NOW_UNIX_S)];
    let now = mesh.now;
    mesh.nodes[0].set_trust(now, NOW_UNIX_S, Some(TrustConfig { revocations: revoked, ..trust(None, 0) }));
    assert_eq!(mesh.nodes[0].revocations().len(), 1, "the other root's counts for nothing");
    mesh.run_for(ms(5_000));
    assert!(has_session(&mesh, 0, 1) && !has_session(&mesh, 1, 3) && !has_session(&mesh, 2, 3));
    let told = |node: usize| mesh.events.iter().any(|(of, _, event)| *of == node && matches!(event, Event::Revoked(_)));
    assert!(!told(0) && told(1) && told(2), "no news to who knew it");
}

#[test]
fn a_revoked_peer_is_met_with_silence_even_where_it_is_configured() {
    let mut mesh = chain();
    mesh.run_for(ms(2_000));
    let revocation = root().revoke(&key(2), NOW_UNIX_S);
    let now = mesh.now;
    mesh.nodes[0].revoke(now, &revocation).unwrap();
    mesh.run_for(Duration::from_secs(20));
    assert!(!has_session(&mesh, 1, 2) && has_session(&mesh, 0, 1));
    // A reload that names the peer again must not restore it either.
    let peers = config(1, &Knows { direct: vec![0, 2], ..Knows::default() }, &mesh.wires, &Policy::default()).peers;
    let now = mesh.now;
    mesh.nodes[1].reconfigure(now, peers[..1].to_vec(), Vec::new(), Vec::new(), None).unwrap();
    mesh.nodes[1].reconfigure(now, peers, Vec::new(), Vec::new(), None).unwrap();
    mesh.run_for(Duration::from_secs(20));
    assert!(!has_session(&mesh, 1, 2) && has_session(&mesh, 0, 1));
}

#[test]
fn a_revocation_without_the_roots_signature_has_no_effect() {
    let mut mesh = chain();
    mesh.run_for(ms(3_000));
    let forged = RootKey::from_seed([98; 32]).revoke(&key(3), NOW_UNIX_S);
    let now = mesh.now;
    assert_eq!(mesh.nodes[0].revoke(now, &forged), Err(RevokeError::OtherRoot));
    // A peer that trusts another root sends the revocation to its peers, which must reject it.
    let liars_root = TrustConfig { root: RootKey::from_seed([98; 32]).public_key(), ..trust(None, 0) };
    mesh.nodes[0].set_trust(now, NOW_UNIX_S, Some(liars_root));
    assert_eq!(mesh.nodes[0].revoke(now, &forged), Ok(true));
    mesh.run_for(ms(3_000));
    assert!(has_session(&mesh, 1, 3) && has_session(&mesh, 2, 3) && has_session(&mesh, 0, 1));
}

#[test]
fn a_thousand_false_certificates_leave_no_state_and_harm_no_peer() {
    let mut mesh = star(&[Some(certified(&claims(1)))]);
    mesh.run_for(ms(2_000));
    for n in 0..1_000u32 {
        let mut secret = [n as u8; 32];
        secret[8..12].copy_from_slice(&n.to_be_bytes());
        let stranger = Identity::from_secret(secret);
        let forged = Claims { public_key: stranger.public_key(), name: format!("x{n}"), ..claims(2) };
        let shown = RootKey::from_seed([98; 32]).sign(&forged).unwrap();
        let hub = weft_session::SessionPeerConfig::from(key(HUB));
        let cipher = weft_session::Cipher::Aes256Gcm;
        let mut sessions = weft_session::Sessions::new(stranger, &[hub], cipher, secret, mesh.now).unwrap();
        sessions.set_certificate(Some(&shown));
        let mut out = [0; 1024];
        let len = sessions.initiate(mesh.now, weft_units::PeerId(0), 1, &mut out).unwrap();
        let now = mesh.now;
        deliver(&mut mesh.nodes[HUB], now, &out[..len]);
        // Slow enough for the hub to examine each of them.
        mesh.run_for(ms(7));
    }
    assert_eq!(mesh.nodes[HUB].snapshot(mesh.now).peers.len(), 1);
    assert!(refusals(&mesh, HUB).is_empty());
    exchange(&mut mesh, HUB, 1);
}

#[test]
fn a_home_that_restarts_has_its_place_again_at_once() {
    let mut mesh = star(&[Some(certified(&claims(1)))]);
    mesh.run_for(ms(2_000));
    let now = mesh.now;
    let mut again = config(1, &Knows { direct: vec![HUB], ..Knows::default() }, &mesh.wires, &Policy::default());
    again.stamp_base = 1_000_000_000_000;
    let mut home = Engine::new(again, now, [200; 32]).unwrap();
    home.set_trust(now, NOW_UNIX_S + 2, Some(trust(Some(certified(&claims(1))), 1)));
    home.handle_link(now, LinkEvent::Up { link: LinkId(1), name: "wire0".into(), mtu: 1500, ipv4: true, ipv6: false });
    mesh.nodes[1] = home;
    mesh.run_for(ms(2_000));
    assert_eq!(mesh.nodes[HUB].certified_peers().count(), 1);
    exchange(&mut mesh, HUB, 1);
}

#[test]
fn a_peer_that_claims_a_network_of_the_machine_is_refused_or_removed() {
    let prefix = |address: [u8; 4], length| Prefix { address: address.into(), length };
    let site = prefix([192, 168, 1, 0], 24);
    let with_site = Claims { prefixes: vec![(inner(1).into(), 32), (site.address, site.length)], ..claims(1) };
    let mut mesh = star(&[Some(certified(&with_site)), Some(certified(&claims(2)))]);
    let outside = |mesh: &mut Mesh, networks| {
        let now = mesh.now;
        mesh.nodes[HUB].set_outside(now, Outside { networks, endpoints: Vec::new() });
    };
    let lan = prefix([192, 168, 1, 128], 25);
    outside(&mut mesh, vec![lan]);
    mesh.run_for(ms(5_000));
    assert_eq!(sessions(&mesh, HUB), ["n2"]);
    assert_eq!(refusals(&mesh, HUB), [Rejection::Outside { prefix: site, clash: Clash::Network(lan) }]);
    outside(&mut mesh, vec![prefix([192, 168, 0, 1], 16), Prefix { address: inner(2).into(), length: 32 }]);
    assert!(sessions(&mesh, HUB).is_empty());
    mesh.run_for(ms(10_000));
    assert_eq!(sessions(&mesh, HUB), ["n1"], "a site inside a local network takes nothing else of it");
    outside(&mut mesh, Vec::new());
    mesh.run_for(ms(10_000));
    assert!(has_session(&mesh, HUB, 1) && has_session(&mesh, HUB, 2));
}
