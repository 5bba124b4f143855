# Two endless flows of the same TCP with different round-trip times share a drop-tail bottleneck.
#
#   S1 --\                    /-- D1     access 1 Gb/s; flow i's round trip is rtt_i
#         R0 -- rate, 1 ms -- R1
#   S2 --/                    \-- D2

source [file join [file dirname [info script]] common.tcl]

read_parameters parameter {
    tcp newreno rate_mbps 10 rtt_a_ms 20 rtt_b_ms 80 buffer 100 segment 1460 window 100000
    delack none dupthresh 3 dupsend 1 overhead 0 minrto 0.2
    seed 1 duration 100 warmup 20 scheduler Calendar count 1
}

set ns [new_simulator $parameter(seed) $parameter(scheduler)]
set left [$ns node]
set right [$ns node]
join_nodes $ns $left $right [expr {$parameter(rate_mbps) * 1e6}] 1 100000
$ns queue-limit $left $right $parameter(buffer)
set agents {}
foreach rtt_ms [list $parameter(rtt_a_ms) $parameter(rtt_b_ms)] {
    set s [$ns node]
    set d [$ns node]
    set access_ms [expr {($rtt_ms / 2.0 - 1) / 2.0}]
    join_nodes $ns $s $left 1e9 $access_ms 100000
    join_nodes $ns $right $d 1e9 $access_ms 100000
    lappend agents [ftp_flow $ns $s $d [random_start 1.0] [list kind $parameter(tcp) \
        segment $parameter(segment) window $parameter(window) \
        dupthresh $parameter(dupthresh) delack $parameter(delack) \
        dupsend $parameter(dupsend) overhead $parameter(overhead) minrto $parameter(minrto)]]
}

run_and_report $ns $agents $parameter(segment) $parameter(warmup) $parameter(duration) $parameter(count) 1
