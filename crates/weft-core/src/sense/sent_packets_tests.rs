//! Tests of the fates of sent packets. Each test itself writes the reports, and decides which packets are lost.

use super::*;
use alloc::vec;
use alloc::vec::Vec;

type FoundFates = Vec<(u64, Fate)>;

#[test]
fn packets_that_leave_at_once_have_places() {
    let mut sent = SentPackets::new();
    for (number, at) in [(0, 1), (1, 2), (2, 2), (3, 2), (4, 3)] {
        assert!(sent.on_sent(number, ms(at), 1000, true, number));
    }
    let mut places = Vec::new();
    sent.give_up(0, |_, _, departure| places.push(departure.place));
    assert_eq!(places, [Place::Alone, Place::First, Place::Following, Place::Following, Place::Alone]);
}

fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

/// Returns a record of packets 0..n of 1000 bytes, sent 1 ms apart.
fn sent_packets_of(n: u64) -> SentPackets<u64> {
    let mut sent = SentPackets::new();
    for i in 0..n {
        assert!(sent.on_sent(i, ms(i), 1000, true, i));
    }
    sent
}

/// Returns a report that a receiver at a delay of 10 ms wrote 2 ms after `largest` arrived.
fn report(largest: u64, packets: u64) -> PathSample {
    PathSample {
        largest,
        received_at_us: (largest as u32 + 10) * 1000,
        held: Duration::from_millis(2),
        packets_received: packets,
        bytes_received: packets * 1000,
        ce_received: 0,
    }
}

fn hear(
    sent: &mut SentPackets<u64>,
    now: u64,
    r: PathSample,
    ranges: &[RangeInclusive<u64>],
) -> (Option<Sample>, FoundFates) {
    let mut fates = vec![];
    let sample = sent.on_report(ms(now), &r, ranges.iter().cloned(), &mut |item, fate, _| fates.push((item, fate)));
    (sample, fates)
}

#[test]
fn two_reports_make_a_delivery_rate() {
    let mut sent = sent_packets_of(30);
    hear(&mut sent, 31, report(9, 10), &[0..=9]);
    let (sample, fates) = hear(&mut sent, 41, report(19, 20), &[0..=19]);
    let sample = sample.unwrap();
    assert_eq!(sample.delivery_rate().unwrap().bps(), 8_000_000);
    assert_eq!(sample.rtt, Duration::from_millis(20));
    assert_eq!(sample.one_way_delay_us, 10_000);
    assert_eq!((sample.sent_after_bytes, sample.in_flight_bytes), (10_000, 10_000));
    assert!(sample.backlogged);
    assert_eq!(fates.len(), 10);
    assert!(fates.iter().all(|f| f.1 == Fate::Delivered));
}

#[test]
fn a_clock_stepped_while_a_report_was_held_shows_no_shorter_round_trip() {
    let mut sent = sent_packets_of(20);
    assert_eq!(hear(&mut sent, 29, report(9, 10), &[0..=9]).0.unwrap().rtt, Duration::from_millis(18));
    let stepped = PathSample { held: Duration::from_millis(16), ..report(19, 20) };
    assert_eq!(hear(&mut sent, 40, stepped, &[0..=19]).0.unwrap().rtt, Duration::from_millis(18));
}

#[test]
fn a_report_held_for_longer_than_it_took_shows_no_round_trip_of_zero() {
    let mut sent = sent_packets_of(10);
    let stepped = PathSample { held: Duration::from_secs(1), ..report(9, 10) };
    assert_eq!(hear(&mut sent, 31, stepped, &[0..=9]).0.unwrap().rtt, Duration::from_millis(22));
}

#[test]
fn one_packet_sent_without_a_backlog_spoils_its_window_only() {
    let mut sent = SentPackets::new();
    for i in 0..30 {
        sent.on_sent(i, ms(i), 1000, i != 12, i);
    }
    hear(&mut sent, 31, report(9, 10), &[0..=9]);
    assert!(!hear(&mut sent, 41, report(19, 20), &[0..=19]).0.unwrap().backlogged);
    assert!(hear(&mut sent, 51, report(29, 30), &[0..=29]).0.unwrap().backlogged);
}

#[test]
fn the_gap_after_the_last_packet_of_a_burst_is_no_window_of_the_paths() {
    let mut sent = SentPackets::new();
    for i in 0..20 {
        let pause = if i < 10 { 0 } else { 300 };
        sent.on_sent(i, ms(i + pause), 1000, i % 10 != 9, i);
    }
    hear(&mut sent, 15, report(4, 5), &[0..=4]);
    assert!(hear(&mut sent, 20, report(9, 10), &[0..=9]).0.unwrap().backlogged);
    assert!(!hear(&mut sent, 320, report(14, 15), &[0..=14]).0.unwrap().backlogged);
}

#[test]
fn three_packets_beyond_a_hole_make_a_loss() {
    let mut sent = sent_packets_of(20);
    let (_, fates) = hear(&mut sent, 31, report(6, 6), &[5..=6, 0..=3]);
    assert!(!fates.contains(&(4, Fate::Lost)));
    let (sample, fates) = hear(&mut sent, 32, report(7, 7), &[5..=7, 0..=3]);
    assert_eq!(fates, [(7, Fate::Delivered), (4, Fate::Lost)]);
    assert_eq!(sample.unwrap().lost_bytes, 1000);
    assert_eq!(sent.in_flight_packets(), 12);
}

#[test]
fn a_late_arrival_widens_the_reordering_window() {
    let mut sent = sent_packets_of(60);
    hear(&mut sent, 40, report(12, 12), &[5..=12, 0..=3]);
    hear(&mut sent, 41, report(13, 14), &[0..=13]);
    assert_eq!(sent.spurious_losses(), 1);
    let (_, fates) = hear(&mut sent, 50, report(25, 24), &[21..=25, 0..=19]);
    assert!(!fates.contains(&(20, Fate::Lost)), "five packets are no longer enough");
    let (_, fates) = hear(&mut sent, 60, report(35, 34), &[21..=35, 0..=19]);
    assert!(fates.contains(&(20, Fate::Lost)));
}

#[test]
fn a_hole_near_the_end_is_lost_by_time() {
    let mut sent = sent_packets_of(5);
    hear(&mut sent, 26, report(4, 4), &[4..=4, 0..=2]);
    let due = sent.next_loss_timeout().unwrap();
    let mut fates = vec![];
    sent.detect_lost(due.before(Duration::from_micros(1)), &mut |i, f, _| fates.push((i, f)));
    assert!(fates.is_empty());
    sent.detect_lost(due, &mut |i, f, _| fates.push((i, f)));
    assert_eq!(fates, [(3, Fate::Lost)]);
    assert_eq!(sent.next_loss_timeout(), None);
}

#[test]
fn nonsense_from_the_peer_changes_nothing() {
    let mut sent = sent_packets_of(5);
    assert!(hear(&mut sent, 30, report(5, 5), &[0..=5]).0.is_none());
    assert_eq!(sent.in_flight_packets(), 5);
    #[allow(clippy::reversed_empty_ranges)]
    let (sample, fates) = hear(&mut sent, 30, report(2, 3), &[7..=u64::MAX, 9..=3, 2..=2]);
    assert!(sample.is_some());
    assert_eq!(fates, [(2, Fate::Delivered)]);
    assert!(hear(&mut sent, 31, report(1, 2), &[]).0.is_none(), "an old report gives no sample");
}

#[test]
fn a_gap_in_the_numbers_is_refused() {
    let mut sent = sent_packets_of(3);
    assert!(!sent.on_sent(4, ms(4), 1000, true, 4));
    assert_eq!(sent.next_number(), 3);
}

#[test]
fn silence_is_counted_from_the_first_unreported_packet() {
    let mut sent = sent_packets_of(10);
    assert_eq!(sent.oldest_unreported_sent_at(), Some(ms(0)));
    hear(&mut sent, 30, report(6, 6), &[5..=6, 0..=3]);
    assert_eq!(sent.oldest_unreported_sent_at(), Some(ms(7)));
    hear(&mut sent, 31, report(9, 10), &[0..=9]);
    assert_eq!(sent.oldest_unreported_sent_at(), None);
}

#[test]
fn a_dead_path_gives_everything_back_and_can_live_again() {
    let mut sent = sent_packets_of(10);
    hear(&mut sent, 30, report(6, 7), &[0..=6]);
    let mut given_up = vec![];
    sent.give_up(0, |i, f, _| given_up.push((i, f)));
    assert_eq!(given_up, [(7, Fate::Lost), (8, Fate::Lost), (9, Fate::Lost)]);
    assert_eq!(sent.in_flight_bytes(), 0);
    assert!(sent.on_sent(10, ms(50), 1000, true, 10));
    let (sample, fates) = hear(&mut sent, 80, report(10, 11), &[0..=10]);
    assert_eq!(fates, [(10, Fate::Delivered)]);
    assert!(sample.is_some());
}

#[test]
fn a_silent_path_gives_the_oldest_back_and_hears_of_the_others() {
    let mut sent = sent_packets_of(10);
    hear(&mut sent, 12, report(1, 2), &[0..=1]);
    let mut given_up = vec![];
    sent.give_up(4, |i, f, _| given_up.push((i, f)));
    assert_eq!(given_up, [2, 3, 4, 5].map(|i| (i, Fate::Lost)));
    assert_eq!((sent.in_flight_packets(), sent.in_flight_bytes()), (4, 4_000));
    assert!(hear(&mut sent, 14, report(4, 3), &[2..=4]).0.is_none(), "the answer comes too late");
    let (sample, fates) = hear(&mut sent, 20, report(7, 8), &[0..=7]);
    assert_eq!(fates, [6, 7].map(|i| (i, Fate::Delivered)));
    assert!(sample.is_some());
    assert_eq!(sent.next_number(), 10);
}

#[test]
fn the_book_forgets_what_is_settled() {
    let mut sent = SentPackets::new();
    for i in 0..10_000u64 {
        sent.on_sent(i, ms(i), 1000, true, i);
        if i >= 20 {
            hear(&mut sent, i, report(i - 20, i - 19), &[0..=i - 20]);
        }
    }
    assert!(sent.ring.len() <= 21);
}
