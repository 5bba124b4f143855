//! Datagrams about the link map, of a member that lies.
//!
//! The liar has a valid certificate. It may replay what others have signed, and sign what it likes itself.

use super::{Datagram, Draw, Kind, repeat};
use weft_session::{Certificate, Claims, Identity, RootKey};
use weft_wire::er_sig::Rate16;
use weft_wire::link_map::{ClaimedLink, MAX_LINKS, MAX_MESSAGE, emit_certificate, emit_claim, emit_digest};
use weft_wire::relay::Label;

/// Wall clock of the node at the start, in seconds since 1970.
pub const UNIX_S: u64 = 1_800_000_000;
/// Number of honest members that the node knows. Derived: the map is full with them, the node and the liar.
pub const MEMBERS: u8 = 254;
/// Number of links of each honest member: those of one claim.
pub const LINKS: u32 = MAX_LINKS as u32;

/// Returns the static key of the liar.
pub fn liar() -> Identity {
    Identity::from_secret([1; 32])
}

/// Returns the static key of an honest member.
pub fn member(number: u8) -> Identity {
    let mut secret = [100; 32];
    secret[1] = number;
    Identity::from_secret(secret)
}

/// Returns the certificate of a key, signed by the root of this seed.
pub fn certificate(root: u8, of: &Identity, until_unix_s: u64) -> Certificate {
    let claims = Claims {
        public_key: of.public_key(),
        name: "member".into(),
        not_before_unix_s: UNIX_S - 1_000,
        not_after_unix_s: until_unix_s,
        may_relay: true,
        prefixes: Vec::new(),
        groups: Vec::new(),
    };
    RootKey::from_seed([root; 32]).sign(&claims).unwrap()
}

fn frame(message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![13];
    bytes.extend((message.len() as u16).to_be_bytes());
    bytes.extend(message);
    bytes
}

/// Returns the frame of a certificate.
pub fn certificate_frame(certificate: &Certificate) -> Vec<u8> {
    let mut out = [0; MAX_MESSAGE];
    let len = emit_certificate(&mut out, certificate.encoded()).unwrap();
    frame(&out[..len])
}

/// Returns the frame of a claim in the name of `author`, signed by `signer`.
pub fn claim_frame(author: &Identity, signer: &Identity, seq: u64, to: impl Iterator<Item = u32>) -> Vec<u8> {
    let link = |to: u32| ClaimedLink {
        to: Label(to),
        is_down: false,
        confidence: 9,
        rtt_us: 1 + to % 90_000,
        jitter_10us: 1,
        loss: 0,
        capacity: Rate16(to as u16),
        available: Rate16(0),
        age_s: 0,
    };
    let links: Vec<ClaimedLink> = to.map(link).collect();
    let mut out = [0; MAX_MESSAGE];
    let sign = |covered: &[u8]| signer.sign(b"weft links", covered);
    let len = emit_claim(&mut out, (&author.public_key().0, seq, true), &links, sign).unwrap();
    frame(&out[..len])
}

/// Returns as many labels as a claim holds, of nodes that do not exist.
fn nobody(d: &mut Draw) -> impl Iterator<Item = u32> + use<> {
    let first = d.u32();
    (0..MAX_LINKS as u32).map(move |at| first.wrapping_add(at))
}

/// Returns a number that the author may use now: the node's clock, up to two minutes ahead.
fn number(d: &mut Draw) -> u64 {
    UNIX_S * 1_000 + d.rng.below(120_000)
}

/// Returns a datagram of claims in the name of `author`. Most have no valid signature, which costs the liar nothing.
fn unsigned(d: &mut Draw, author: impl Fn(&mut Draw) -> Identity) -> Datagram {
    let nobody_s = Identity::from_secret([7; 32]);
    let template = claim_frame(&nobody_s, &nobody_s, 0, [1].into_iter());
    repeat(d, |d| {
        let key = author(d).public_key().0;
        let mut template = template.clone();
        template[4..36].copy_from_slice(&key);
        template[36..44].copy_from_slice(&number(d).to_be_bytes());
        template
    })
}

pub const MAP: &[Kind] = &[
    Kind {
        name: "map claim, own, of nobody",
        make: |d| {
            let me = liar();
            repeat(d, |d| {
                let (seq, to) = (number(d), nobody(d));
                claim_frame(&me, &me, seq, to)
            })
        },
    },
    Kind {
        name: "map claim, own, each of one link",
        make: |d| {
            let me = liar();
            repeat(d, |d| {
                let (seq, to) = (number(d), d.u32());
                claim_frame(&me, &me, seq, [to].into_iter())
            })
        },
    },
    Kind {
        name: "map claim, of a member, replayed",
        make: |d| {
            let author = member(d.rng.below(MEMBERS.into()) as u8);
            repeat(d, |_| claim_frame(&author, &author, UNIX_S * 1_000, 0..LINKS))
        },
    },
    Kind {
        name: "map claim, of unknown nodes",
        make: |d| unsigned(d, |d| Identity::from_secret([10 + d.rng.below(80) as u8; 32])),
    },
    Kind {
        name: "map certificate, known",
        make: |d| {
            let number = d.rng.below(MEMBERS.into()) as u8;
            let known = certificate_frame(&certificate(9, &member(number), UNIX_S + 100_000));
            repeat(d, |_| known.clone())
        },
    },
    Kind {
        name: "map certificate, replaced or expired",
        make: |d| {
            let number = d.rng.below(MEMBERS.into()) as u8;
            let replaced = certificate_frame(&certificate(9, &member(number), UNIX_S + 90_000));
            let expired = certificate_frame(&certificate(9, &Identity::from_secret([8; 32]), UNIX_S - 1));
            repeat(d, |d| if d.chance() { replaced.clone() } else { expired.clone() })
        },
    },
    Kind {
        name: "map digest, all is missing",
        make: |d| {
            repeat(d, |d| {
                let mut out = [0; MAX_MESSAGE];
                let entries: Vec<_> = (0..90).map(|_| (Label(d.u32()), 0)).collect();
                let len = emit_digest(&mut out, true, (Label(0), Label(u32::MAX)), &entries).unwrap();
                frame(&out[..len])
            })
        },
    },
    Kind {
        name: "map digest, of nothing",
        make: |d| {
            repeat(d, |_| {
                let mut out = [0; MAX_MESSAGE];
                let len = emit_digest(&mut out, true, (Label(0), Label(u32::MAX)), &[]).unwrap();
                frame(&out[..len])
            })
        },
    },
    Kind {
        name: "map, noise",
        make: |d| {
            repeat(d, |d| {
                let len = 1 + d.rng.below(300) as usize;
                let mut message = d.bytes(len);
                message[0] = 13 + d.rng.below(3) as u8;
                frame(&message)
            })
        },
    },
];

/// Forgeries. The first one of them bars the liar.
pub const FORGED: &[Kind] = &[
    Kind {
        name: "map claim, of a member, forged",
        make: |d| unsigned(d, |d| member(d.rng.below(MEMBERS.into()) as u8)),
    },
    Kind {
        name: "map certificate, of another root",
        make: |d| {
            let forged = certificate_frame(&certificate(10, &Identity::from_secret([d.n as u8; 32]), UNIX_S + 100_000));
            repeat(d, |_| forged.clone())
        },
    },
];
