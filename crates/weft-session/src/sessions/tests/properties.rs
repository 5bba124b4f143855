use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// One step of a test with two nodes. `false` names the first node, `true` the second.
#[derive(Clone, Debug)]
enum SessionStep {
    Seal {
        from: bool,
        vpn: u32,
        path: u8,
        delivered: bool,
    },
    /// One node announces its receiver index for a VPN to the other. The announcement may be lost.
    Tell {
        from: bool,
        vpn: u32,
        delivered: bool,
    },
    /// One node initiates a handshake. Its last message may be lost.
    Handshake {
        from: bool,
        finished: bool,
    },
    Restart {
        node: bool,
    },
    Wait {
        seconds: u64,
    },
}

fn step() -> impl Strategy<Value = SessionStep> {
    let seal = (any::<bool>(), 0u32..4, 0u8..4, any::<bool>());
    let tell = (any::<bool>(), 1u32..4, any::<bool>());
    prop_oneof![
        10 => seal.prop_map(|(from, vpn, path, delivered)| SessionStep::Seal { from, vpn, path, delivered }),
        6 => tell.prop_map(|(from, vpn, delivered)| SessionStep::Tell { from, vpn, delivered }),
        3 => (any::<bool>(), any::<bool>()).prop_map(|(from, finished)| SessionStep::Handshake { from, finished }),
        1 => any::<bool>().prop_map(|node| SessionStep::Restart { node }),
        2 => (1u64..70).prop_map(|seconds| SessionStep::Wait { seconds }),
    ]
}

struct SessionPair {
    nodes: [Sessions; 2],
    identities: [Identity; 2],
    seconds: u64,
    /// Number that rises with every use, so that stamps and seeds differ.
    count: u8,
    /// First blocks of all ciphertexts.
    ///
    /// All plaintexts begin with zeros, so an equal pair proves a repeated key and nonce.
    blocks: BTreeSet<[u8; 32]>,
}

impl SessionPair {
    fn new() -> SessionPair {
        let (a, b) = identities();
        let nodes = [node(&a, &b, 200), node(&b, &a, 201)];
        SessionPair { nodes, identities: [a, b], seconds: 0, count: 0, blocks: BTreeSet::new() }
    }

    fn ends(&mut self, from: bool) -> (&mut Sessions, &mut Sessions) {
        let [a, b] = &mut self.nodes;
        if from { (b, a) } else { (a, b) }
    }

    fn handshake(&mut self, from: bool, finished: bool) {
        self.count += 1;
        self.seconds += 1;
        let (now, stamp) = (at(self.seconds), u64::from(self.count));
        let (initiator, responder) = self.ends(from);
        initiator.force_initiate(now, PEER).unwrap();
        let first = initiation(initiator, now, stamp);
        let (_, second) = answer(responder, now, &first).unwrap();
        if finished {
            answer(initiator, now, &second).unwrap();
        }
    }

    fn run(&mut self, step: SessionStep) -> Result<(), TestCaseError> {
        match step {
            SessionStep::Tell { from, vpn, delivered } => {
                let (sender, receiver) = self.ends(from);
                if let Some(index) = sender.vpn_index(PEER, VpnId(vpn)) {
                    let (_, datagram) = seal(sender, PATH, &index.to_be_bytes()).unwrap();
                    if delivered && let Ok((opened, text)) = open(receiver, &datagram) {
                        let index = u32::from_be_bytes(text.try_into().unwrap());
                        receiver.set_vpn_index(PEER, opened.key, VpnId(vpn), index);
                    }
                }
            }
            SessionStep::Seal { from, vpn, path, delivered } => {
                let (sender, receiver) = self.ends(from);
                let is_closed = sender.vpn_standing(PEER, VpnId(vpn)) == VpnStanding::Closed;
                let sealed = seal_in(sender, VpnId(vpn), PathId(path), &[0; 32]);
                prop_assert_eq!(sealed.is_err(), is_closed, "{:?}", sealed);
                if let Ok((number, datagram)) = sealed {
                    if delivered && let Ok((opened, text)) = open(receiver, &datagram) {
                        let passed = (opened.vpn, opened.packet_number, text);
                        prop_assert_eq!(passed, (VpnId(vpn), number, vec![0; 32]));
                        prop_assert_eq!(open(receiver, &datagram), Err(OpenError::Replayed));
                    }
                    let block = datagram[HOP_HEADER_LEN..][..32].try_into().unwrap();
                    prop_assert!(self.blocks.insert(block), "a key stream came twice: a nonce was used twice");
                }
            }
            SessionStep::Handshake { from, finished } => self.handshake(from, finished),
            SessionStep::Restart { node: which } => {
                self.count += 1;
                let (own, other) = (usize::from(which), usize::from(!which));
                self.nodes[own] = node(&self.identities[own], &self.identities[other], self.count);
            }
            SessionStep::Wait { seconds } => {
                self.seconds += seconds;
                let now = at(self.seconds);
                self.nodes.iter_mut().for_each(|node| drop(node.handle_timeout(now)));
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_nonce_is_used_twice_and_one_handshake_always_mends(steps in prop::collection::vec(step(), 1..80), from: bool) {
        let mut world = SessionPair::new();
        for step in steps {
            world.run(step)?;
        }
        world.handshake(from, true);
        let (initiator, responder) = world.ends(from);
        for _ in 0..3 {
            pass(initiator, responder);
            pass(responder, initiator);
        }
        // A packet of a VPN can be opened once its receiver has announced an index for the VPN.
        tell(responder, initiator, VpnId(1));
        let (_, datagram) = seal_in(initiator, VpnId(1), PATH, b"vpn").unwrap();
        prop_assert_eq!(open(responder, &datagram).unwrap().0.vpn, VpnId(1));
    }

    #[test]
    fn any_bytes_are_an_error_and_not_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..260), kind in 0u8..8, known: bool) {
        let (mut a, mut b) = connected();
        let first = initiation(&mut a, at(1), 2);
        let (_, valid) = seal(&mut b, PATH, b"").unwrap();
        if let Some(byte) = bytes.first_mut() {
            *byte = 0x10 | kind;
        }
        if known {
            bytes.iter_mut().skip(2).zip(&valid[2..6]).for_each(|(to, from)| *to = *from);
        }
        prop_assert!(open(&mut a, &bytes).is_err());
        for under_load in [false, true] {
            prop_assert!(a.handle(at(1), &bytes, &bytes, under_load, &mut [0; RESPONSE_LEN]).is_err());
            prop_assert!(a.handle(at(1), &bytes, &bytes, under_load, &mut []).is_err());
        }
        let (_, response) = answer(&mut b, at(1), &first).unwrap();
        prop_assert!(answer(&mut a, at(1), &response).is_ok(), "nothing was harmed");
    }

    #[test]
    fn damaged_handshakes_are_an_error_and_not_a_panic(
        at_byte in 0..INITIATION_LEN, value: u8, cut in 0..=INITIATION_LEN, room in 0usize..RESPONSE_LEN, fix_mac: bool,
    ) {
        let (mut a, mut b) = connected();
        let mut first = initiation(&mut a, at(1), 2);
        first[at_byte] ^= value;
        let mac1 = INITIATION_LEN - 32;
        if fix_mac {
            let mac = MacKeys::of(&b.public_key()).mac1(&first[..mac1]);
            first[mac1..mac1 + 16].copy_from_slice(&mac);
        }
        let untouched = value == 0 || at_byte >= INITIATION_LEN - 16 || (fix_mac && at_byte >= mac1);
        let mut out = vec![0; room];
        prop_assert!(b.handle(at(1), &first[..cut], SOURCE, false, &mut out).is_err());
        prop_assert_eq!(answer(&mut b, at(1), &first).is_ok(), untouched);
    }
}
