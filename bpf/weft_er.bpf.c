/* SPDX-License-Identifier: GPL-2.0 */
/*
 * weft_er: TCP-ER as a congestion control of a stock kernel. The rate is the socket's SO_MAX_PACING_RATE, or else what
 * the maps say of the connection or its destination. See law.h for what is done with it.
 */
#include "kernel.h"
#include "law.h"

char weft_er_license[] SEC("license") = "GPL";

/* The longest prefix of network namespace and destination, IPv4 as ::ffff:a.b.c.d. */
struct destination {
	__u32 prefix_len;
	__u64 namespace_cookie;
	__u8 address[16];
} __attribute__((packed));

/* For each flow. Who writes it renews it: one that is older than four round trips is no grant. */
struct grant {
	__u64 bytes_per_s;
	__u64 granted_at_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct destination);
	__type(value, struct grant);
} weft_er_grants SEC(".maps");

/* One connection, as its sender sees it. */
struct flow {
	__u64 namespace_cookie;
	__u8 remote[16];
	__be16 remote_port;
	__u16 local_port;
	__u32 zero;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct flow);
	__type(value, struct grant);
} weft_er_flows SEC(".maps");

static __always_inline struct law *law_of(struct sock *sk)
{
	return (struct law *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline __u32 network_header(const struct sock *sk)
{
	return sk->__sk_common.skc_family == AF_INET ? 20 : 40;
}

static __always_inline void look_for_grant(struct sock *sk, struct law *law, __u64 now_us)
{
	struct destination to = { .prefix_len = 8 * (sizeof(to.namespace_cookie) + sizeof(to.address)) };
	unsigned long by_application = sk->sk_max_pacing_rate;
	struct flow flow = {};
	struct grant *grant;

	if (by_application != ~0UL) {
		law_on_grant(law, now_us, by_application);
		return;
	}
	to.namespace_cookie = sk->__sk_common.skc_net.net->net_cookie;
	if (sk->__sk_common.skc_family == AF_INET) {
		__be32 address = sk->__sk_common.skc_daddr;

		to.address[10] = 0xff;
		to.address[11] = 0xff;
		__builtin_memcpy(to.address + 12, &address, sizeof(address));
	} else {
		bpf_core_read(to.address, sizeof(to.address), &sk->__sk_common.skc_v6_daddr);
	}
	__builtin_memcpy(flow.remote, to.address, sizeof(flow.remote));
	flow.namespace_cookie = to.namespace_cookie;
	flow.remote_port = sk->__sk_common.skc_dport;
	flow.local_port = sk->__sk_common.skc_num;
	grant = bpf_map_lookup_elem(&weft_er_flows, &flow);
	if (!grant)
		grant = bpf_map_lookup_elem(&weft_er_grants, &to);
	if (grant) {
		__u64 age_us = saturating_sub(bpf_ktime_get_ns(), grant->granted_at_ns) / 1000;

		law_on_grant(law, saturating_sub(now_us, age_us), grant->bytes_per_s);
	} else if (law->granted) {
		law_on_grant(law, now_us, 0);
	}
}

/* Without fq the kernel paces what TCP sends and does not count the headers, which the grant does. */
static __always_inline void obey(struct sock *sk, const struct law *law)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u64 pace = law_pacing_rate(law);

	tp->snd_cwnd = law_window(law);
	if (!pace)
		pace = ~0ULL;
	else if (sk->sk_pacing_status != SK_PACING_FQ)
		pace = most(saturating_mul(pace, tp->mss_cache) / most(law->segment_bytes, 1), 1);
	sk->sk_pacing_rate = pace;
}

SEC("struct_ops")
void BPF_PROG(weft_er_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct law *law = law_of(sk);

	law_init(law, tp->mss_cache + tp->tcp_header_len + network_header(sk));
	law->srtt_us = tp->srtt_us >> 3;
	if (sk->sk_pacing_status != SK_PACING_FQ)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	tp->snd_ssthresh = ~0u;
	look_for_grant(sk, law, tp->tcp_mstamp);
	obey(sk, law);
}

static __always_inline void on_ack(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct law *law = law_of(sk);
	int losses = rs->losses;

	law->segment_bytes = most(tp->mss_cache + tp->tcp_header_len + network_header(sk), 1);
	look_for_grant(sk, law, tp->tcp_mstamp);
	law_on_ack(law, tp->tcp_mstamp, rs->acked_sacked, losses > 0 ? losses : 0, tp->srtt_us >> 3);
	obey(sk, law);
}

SEC("struct_ops")
void BPF_PROG(weft_er_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	on_ack(sk, rs);
}

/* How Linux called it before 6.10. */
SEC("struct_ops")
void BPF_PROG(weft_er_cong_control_6_0, struct sock *sk, const struct rate_sample *rs)
{
	on_ack(sk, rs);
}

/* No slow start, and nothing that a loss lowers. */
SEC("struct_ops")
__u32 BPF_PROG(weft_er_ssthresh, struct sock *sk)
{
	return ~0u;
}

SEC("struct_ops")
__u32 BPF_PROG(weft_er_undo_cwnd, struct sock *sk)
{
	return law_window(law_of(sk));
}

/* Windows that the send buffer grows to: what is under way, and what waits there behind repairs of repairs. */
SEC("struct_ops")
__u32 BPF_PROG(weft_er_sndbuf_expand, struct sock *sk)
{
	return 4;
}

#define WEFT_ER(control) { \
	.init = (void *)weft_er_init, \
	.cong_control = (void *)control, \
	.ssthresh = (void *)weft_er_ssthresh, \
	.undo_cwnd = (void *)weft_er_undo_cwnd, \
	.sndbuf_expand = (void *)weft_er_sndbuf_expand, \
	.flags = TCP_CONG_NON_RESTRICTED, \
	.name = "weft_er", \
}

SEC(".struct_ops.link")
struct tcp_congestion_ops weft_er = WEFT_ER(weft_er_cong_control);

/* Only made where the loader asks for it, instead of the other. */
SEC("?.struct_ops.link")
struct tcp_congestion_ops weft_er_6_0 = WEFT_ER(weft_er_cong_control_6_0);

/* One step of the law as the kernel computes it, for the test that compares it with weft-core's. */
enum event { INIT, GRANT, ACK };

struct step {
	struct law law;
	__u64 now_us;
	__u64 rate;
	__u64 srtt_us;
	__u32 event;
	__u32 segment_bytes;
	__u32 delivered;
	__u32 lost;
	__u64 pacing_rate;
	__u32 window;
	__u32 mode;
};

SEC("syscall")
int weft_er_step(struct step *step)
{
	struct law law = step->law;

	switch (step->event) {
	case INIT:
		law_init(&law, step->segment_bytes);
		break;
	case GRANT:
		law_on_grant(&law, step->now_us, step->rate);
		break;
	default:
		law_on_ack(&law, step->now_us, step->delivered, step->lost, step->srtt_us);
	}
	step->law = law;
	step->pacing_rate = law_pacing_rate(&law);
	step->window = law_window(&law);
	step->mode = law.mode;
	return 0;
}
