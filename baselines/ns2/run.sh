#!/bin/bash
# Runs the ns-2 cases and writes one CSV line for each.
#
#   run.sh OUT.csv [figure-2] [timing] [single] [two-flows]      (default: all sets)
#
# Environment, with defaults in parentheses: SEEDS ("1 2 3 4 5"); DURATION and WARMUP of figure-2 in
# simulated seconds (100, 20); JOBS, the number of parallel runs (number of cores; timing always runs
# alone); REPEATS of the timed run (5); RUN_UNDER, a command prefix such as "chrt -i 0" (none).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
SEEDS=${SEEDS:-1 2 3 4 5}
DURATION=${DURATION:-100}
WARMUP=${WARMUP:-20}
JOBS=${JOBS:-$(nproc)}
REPEATS=${REPEATS:-5}
export RUN_UNDER=${RUN_UNDER:-}
header=case,parameters,goodput_bps,hops,cpu_s,rss_kb,sent,retransmitted,window_cuts,drops

install_if_missing() {
    local root=()
    [ "$(id -u)" = 0 ] || root=(sudo)
    if ! command -v ns >/dev/null || [ ! -x /usr/bin/time ]; then
        "${root[@]}" apt-get update -q >&2
        "${root[@]}" apt-get install -y -q ns2 time >&2
    fi
}

# one_case CASE SCRIPT PARAMETER…: runs one case and prints its CSV line.
one_case() {
    local name=$1 script=$2 goodput hops sent retransmitted cuts drops user system rss output
    shift 2
    output=$(mktemp)
    # ns-2's Linux agent also prints its commands on standard output, so only the result line is read.
    read -r goodput hops sent retransmitted cuts drops < <(
        /usr/bin/time -o "$output" -f '%U %S %M' $RUN_UNDER ns "$script" "$@" | sed -n 's/^result //p')
    read -r user system rss < <(tail -n 1 "$output")
    rm -f "$output"
    echo "$name,$*,$goodput,$hops,$(echo "$user $system" | awk '{ printf "%.2f", $1 + $2 }'),$rss,$sent,$retransmitted,$cuts,$drops"
}

# Prints T(N) of paper 000, equation 1, for N paths.
dup_thresh() { case $1 in 1) echo 3 ;; 2 | 3) echo 6 ;; *) echo 9 ;; esac; }

figure_2_cases() {
    local seed paths difference dupthresh
    for seed in $SEEDS; do
        for paths in 1 2 3 4 5; do
            for difference in 0 0.25 0.5 0.75 1; do
                [ "$paths" != 1 ] || [ "$difference" = 0 ] || continue # one path has no delay difference
                for dupthresh in $(printf '%s\n' 3 "$(dup_thresh $paths)" | uniq); do
                    echo figure-2 "$here/figure-2.tcl" paths=$paths difference=$difference \
                        dupthresh=$dupthresh seed=$seed duration=$DURATION warmup=$WARMUP
                done
            done
        done
    done
}

# Prints a buffer of one bandwidth-delay product in packets of 1500 B, at least ten packets.
buffer() { awk -v mbps="$1" -v ms="$2" 'BEGIN { b = int(mbps * ms * 1000 / 8 / 1500 + 0.5); print (b < 10 ? 10 : b) }'; }

single_cases() {
    local tcp seed loss rtt rate
    for tcp in newreno sack bic cubic cubic-rfc; do
        for rate in 1 10 100; do
            for rtt in 10 50 200; do
                echo single "$here/single.tcl" tcp=$tcp rate_mbps=$rate rtt_ms=$rtt \
                    buffer="$(buffer $rate $rtt)" duration=300 warmup=100
            done
        done
        for loss in 0.0001 0.001 0.01 0.05; do
            for rtt in 10 50 200; do
                for seed in $SEEDS; do
                    echo single "$here/single.tcl" tcp=$tcp rate_mbps=100 rtt_ms=$rtt \
                        buffer="$(buffer 100 $rtt)" loss=$loss seed=$seed duration=300 warmup=20
                done
            done
        done
    done
}

# Without randomness at the hosts a drop-tail queue locks onto one flow (phase effects); 1.2 ms is
# one packet's time on the bottleneck.
two_flows_cases() {
    local tcp seed rtt overhead
    for tcp in newreno sack bic cubic cubic-rfc; do
        for rtt in 20 40 80 160; do
            for overhead in 0 0.0012; do
                for seed in $SEEDS; do
                    echo two-flows "$here/two-flows.tcl" tcp=$tcp rate_mbps=10 rtt_a_ms=20 \
                        rtt_b_ms=$rtt buffer=50 overhead=$overhead seed=$seed duration=300 warmup=50
                done
            done
        done
    done
}

# Runs the cases on standard input, JOBS at a time, and prints their lines in input order.
run_all() {
    local folder
    folder=$(mktemp -d)
    awk '{ printf "%06d %s\n", NR, $0 }' |
        xargs -r -P "$JOBS" -L 1 bash -c 'set -euo pipefail; one_case "${@:2}" > "$0/$1"' "$folder"
    cat "$folder"/*
    rm -rf "$folder"
}

# Times paper 000's Figure 2 at N = 5, 25 %. The hops are from a run that counts them; CPU seconds and
# memory are from the same run without counters.
timing() {
    local dupthresh repeat line hops
    for dupthresh in 3 9; do
        local case=(figure-2-timing "$here/figure-2.tcl" paths=5 difference=0.25 dupthresh=$dupthresh seed=1 duration=100 warmup=20)
        hops=$(one_case "${case[@]}" | cut -d, -f4)
        for ((repeat = 0; repeat < REPEATS; repeat++)); do
            line=$(one_case "${case[@]}" count=0)
            echo "$line" | awk -F, -v OFS=, -v hops="$hops" '{ $4 = hops; print }'
        done
    done
}

export -f one_case
install_if_missing
[ $# -ge 1 ] || { echo "usage: run.sh OUT.csv [figure-2] [timing] [single] [two-flows]" >&2; exit 2; }
out=$1
shift
[ $# -ge 1 ] || set -- figure-2 timing single two-flows
{
    echo "$header"
    for set in "$@"; do
        case $set in
            figure-2) figure_2_cases | run_all ;;
            timing) timing ;;
            single) single_cases | run_all ;;
            two-flows) two_flows_cases | run_all ;;
            *) echo "run.sh: unknown set '$set'" >&2; exit 2 ;;
        esac
    done
} > "$out"
