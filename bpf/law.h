/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TCP-ER's law: a sender that was granted a rate (paper 001, section IV-A). The same integers as weft-core's
 * explicit_rate/tcp_er.rs, which says why; a test holds the two against each other step by step.
 */
#pragma once

#define GRANT_ROUNDS 4
#define LEAST_GRANT_US 200000
#define MOST_LOST_PERCENT 30
#define FIRST_DOUBT_ROUNDS 4
#define MOST_DOUBT_ROUNDS 256
#define LEAST_ROUND_PACKETS 8
#define LEAST_RTT_US 100
#define ALLOWANCE_US 10000
#define LEAST_WINDOW 4
#define FIRST_WINDOW 10
#define MOST_WINDOW (1u << 24)

enum mode { GRANTED, AIMD };

/* Fits a socket's 104 private bytes. Rates are bytes a second, IP headers included; windows are packets. */
struct law {
	__u64 granted;
	__u64 granted_at_us;
	__u64 srtt_us;
	__u64 round_began_us;
	__u64 round_delivered;
	__u64 round_lost;
	__u64 delivered_before;
	__u32 segment_bytes;
	__u32 window;
	__u32 threshold;
	__u32 grown;
	__u32 doubt_rounds;
	__u32 good_rounds;
	__u32 mode;
	__u32 is_distrusted;
	__u32 has_given_way;
	__u32 reserved;
};

static __always_inline __u64 saturating_mul(__u64 a, __u64 b)
{
	__u64 fits = a ? ~0ULL / a : ~0ULL;

	/* Else the compiler sees an overflow check and calls for 128 bits, which BPF has not. */
	asm volatile("" : "+r"(fits));
	return b > fits ? ~0ULL : a * b;
}

static __always_inline __u64 saturating_add(__u64 a, __u64 b)
{
	return a + b < a ? ~0ULL : a + b;
}

static __always_inline __u64 saturating_sub(__u64 a, __u64 b)
{
	return a > b ? a - b : 0;
}

static __always_inline __u64 least(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

static __always_inline __u64 most(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

static __always_inline void law_init(struct law *law, __u32 segment_bytes)
{
	*law = (struct law){
		.segment_bytes = most(segment_bytes, 1),
		.window = FIRST_WINDOW,
		.threshold = ~0u,
		.doubt_rounds = FIRST_DOUBT_ROUNDS,
		.good_rounds = FIRST_DOUBT_ROUNDS,
		.mode = AIMD,
	};
}

/* AIMD begins with what arrived in a round trip, which the network can carry. */
static __always_inline void leave_grant(struct law *law)
{
	if (law->mode != GRANTED)
		return;
	law->mode = AIMD;
	law->window = most(least(most(law->round_delivered, law->delivered_before), MOST_WINDOW), LEAST_WINDOW);
	law->threshold = law->window;
	law->grown = 0;
	law->has_given_way = true;
}

static __always_inline void law_on_grant(struct law *law, __u64 now_us, __u64 bytes_per_s)
{
	law->granted = bytes_per_s;
	law->granted_at_us = now_us;
	if (!bytes_per_s)
		leave_grant(law);
	else if (!law->is_distrusted)
		law->mode = GRANTED;
}

static __always_inline bool loses_much(const struct law *law)
{
	__u64 all = saturating_add(law->round_delivered, law->round_lost);

	return all >= LEAST_ROUND_PACKETS &&
	       saturating_mul(law->round_lost, 100) > saturating_mul(all, MOST_LOST_PERCENT);
}

/* The first time, or again: then for longer. */
static __always_inline void distrust(struct law *law)
{
	if (!law->is_distrusted && law->good_rounds < law->doubt_rounds)
		law->doubt_rounds = least((__u64)law->doubt_rounds * 2, MOST_DOUBT_ROUNDS);
	else if (!law->is_distrusted)
		law->doubt_rounds = FIRST_DOUBT_ROUNDS;
	law->is_distrusted = true;
	law->good_rounds = 0;
}

static __always_inline void end_round(struct law *law, __u64 now_us)
{
	bool gives_way = law->mode == AIMD && law->round_lost && !law->has_given_way;

	if (gives_way) {
		law->window = most(law->window / 2, LEAST_WINDOW);
		law->threshold = law->window;
	}
	law->has_given_way = gives_way;
	law->good_rounds = least((__u64)law->good_rounds + 1, ~0u);
	if (law->is_distrusted && law->good_rounds >= law->doubt_rounds) {
		law->is_distrusted = false;
		law->good_rounds = 0;
	}
	law->delivered_before = law->round_delivered;
	law->round_began_us = now_us;
	law->round_delivered = 0;
	law->round_lost = 0;
}

/* A packet more for each window that arrived; before any grant or loss, for each packet (slow start). */
static __always_inline void aimd(struct law *law, __u32 delivered)
{
	if (law->window < law->threshold) {
		law->window = least(least((__u64)law->window + delivered, law->threshold), MOST_WINDOW);
		return;
	}
	law->grown = least((__u64)law->grown + delivered, ~0u);
	if (law->grown >= law->window) {
		law->grown -= law->window;
		law->window = least((__u64)law->window + 1, MOST_WINDOW);
	}
	law->grown = least(law->grown, law->window);
}

static __always_inline void law_on_ack(struct law *law, __u64 now_us, __u32 delivered, __u32 lost, __u64 srtt_us)
{
	bool is_stale;

	law->srtt_us = most(srtt_us, LEAST_RTT_US);
	law->round_delivered = saturating_add(law->round_delivered, delivered);
	law->round_lost = saturating_add(law->round_lost, lost);
	is_stale = saturating_sub(now_us, law->granted_at_us) >
		   most(saturating_mul(law->srtt_us, GRANT_ROUNDS), LEAST_GRANT_US);
	if (loses_much(law))
		distrust(law);
	if (is_stale || law->is_distrusted)
		leave_grant(law);
	if (law->mode == AIMD)
		aimd(law, delivered);
	if (saturating_sub(now_us, law->round_began_us) >= law->srtt_us)
		end_round(law, now_us);
}

static __always_inline __u64 law_pacing_rate(const struct law *law)
{
	__u64 bytes, pace;

	if (law->mode == GRANTED)
		return law->granted;
	/* A fifth more than the window needs, as Linux paces congestion avoidance. */
	bytes = (__u64)law->window * law->segment_bytes;
	pace = law->srtt_us ? saturating_mul(bytes, 1200000) / law->srtt_us : 0;
	return law->granted && (!pace || pace > law->granted) ? law->granted : pace;
}

/* What the rate sends in a round trip and a quarter and 10 ms, and a few. */
static __always_inline __u32 in_flight_at_grant(const struct law *law)
{
	__u64 time_us = saturating_add(saturating_mul(most(law->srtt_us, LEAST_RTT_US), 5) / 4, ALLOWANCE_US);
	__u64 bytes = saturating_mul(law->granted, time_us) / 1000000;

	return least(bytes / most(law->segment_bytes, 1) + LEAST_WINDOW, MOST_WINDOW);
}

static __always_inline __u32 law_window(const struct law *law)
{
	if (law->mode == GRANTED)
		return most(in_flight_at_grant(law), LEAST_WINDOW);
	if (law->granted && law->srtt_us)
		return most(least(law->window, in_flight_at_grant(law)), LEAST_WINDOW);
	return law->window;
}
