//! Tests properties of TCP that hold whatever the network does.

use crate::network::{Faults, transfer};
use proptest::prelude::*;
use std::time::Duration;
use weft_sim::tcp::congestion::{CongestionKind, CubicGrowth, HyStartKind};
use weft_sim::tcp::{AckRule, LossRecovery, ReceiverConfig, SenderConfig};

fn recovery() -> impl Strategy<Value = LossRecovery> {
    prop_oneof![Just(LossRecovery::NewReno), Just(LossRecovery::Sack), Just(LossRecovery::RackTlp)]
}

fn congestion() -> impl Strategy<Value = CongestionKind> {
    prop_oneof![
        Just(CongestionKind::Reno { abc_limit_segments: 2 }),
        Just(CongestionKind::Cubic {
            hystart: HyStartKind::PlusPlus,
            fast_convergence: true,
            growth: CubicGrowth::Continuous
        }),
        Just(CongestionKind::Bic),
        any::<u64>().prop_map(|seed| CongestionKind::Bbr { seed }),
    ]
}

fn delayed_ack() -> impl Strategy<Value = AckRule> {
    let delay = Duration::from_millis(200);
    prop_oneof![
        Just(AckRule::None),
        Just(AckRule::Standard { delay }),
        any::<bool>().prop_map(move |oracle| AckRule::Modified { delay, oracle }),
        Just(AckRule::Quick),
    ]
}

prop_compose! {
    fn sender_config()(
        recovery in recovery(),
        congestion in congestion(),
        dup_thresh in 1u32..12,
        (adaptive_reordering, undo, limited_transmit, ecn, handshake) in any::<(bool, bool, bool, bool, bool)>(),
        mss in prop_oneof![Just(1u32), Just(512), Just(1448)],
        max_window_segments in 1u32..64,
    ) -> SenderConfig {
        SenderConfig {
            mss, congestion, recovery, dup_thresh, adaptive_reordering, undo, limited_transmit, ecn, handshake, max_window_segments,
            ..SenderConfig::default()
        }
    }
}

prop_compose! {
    fn faults()(
        loss in prop_oneof![Just(0.0), 0.0..0.3],
        duplicate in prop_oneof![Just(0.0), 0.0..0.2],
        late in prop_oneof![Just(0.0), 0.0..0.5],
        late_ms in 0u64..100,
        mark in prop_oneof![Just(0.0), 0.0..0.1],
    ) -> Faults {
        Faults { loss, duplicate, late, late_by: Duration::from_millis(late_ms), mark }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// All data arrives in order and once, and the same seed gives the same run.
    ///
    /// Outstanding data stays within the receive window. Data in flight stays within the sender's window.
    #[test]
    fn every_stream_arrives_whole(
        sender in sender_config(), delayed_ack in delayed_ack(), faults in faults(), segments in 0u64..120, seed in any::<u64>(),
    ) {
        let bytes = segments * u64::from(sender.mss) + segments % u64::from(sender.mss);
        let receiver = ReceiverConfig {
            mss: sender.mss,
            window_segments: sender.max_window_segments,
            delayed_ack,
            sack: sender.recovery != LossRecovery::NewReno,
            ecn: sender.ecn,
            ..ReceiverConfig::default()
        };
        let outcome = transfer(sender, receiver, faults, bytes, seed);
        prop_assert!(outcome.finished, "{:?}", outcome);
        prop_assert_eq!(outcome.delivered, bytes);
        prop_assert!(outcome.most_outstanding <= u64::from(sender.max_window_segments * sender.mss), "{:?}", outcome);
        prop_assert!(!outcome.beyond_window, "{:?}", outcome);
        prop_assert_eq!(&outcome, &transfer(sender, receiver, faults, bytes, seed));
    }
}
