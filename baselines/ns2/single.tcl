# One endless flow over one bottleneck with a drop-tail buffer and random loss on the link.
#
#   S -- 1 Gb/s, 0 ms -- R -- rate, rtt/2 -- D

source [file join [file dirname [info script]] common.tcl]

read_parameters parameter {
    tcp newreno rate_mbps 10 rtt_ms 100 buffer 100 loss 0 segment 1460 window 100000
    delack none dupthresh 3 dupsend 1 overhead 0 minrto 0.2
    seed 1 duration 100 warmup 20 scheduler Calendar count 1
}

set ns [new_simulator $parameter(seed) $parameter(scheduler)]
set s [$ns node]
set r [$ns node]
set d [$ns node]
join_nodes $ns $s $r 1e9 0 100000
join_nodes $ns $r $d [expr {$parameter(rate_mbps) * 1e6}] [expr {$parameter(rtt_ms) / 2.0}] 100000
$ns queue-limit $r $d $parameter(buffer)
if {$parameter(loss) > 0} {
    set loss [new ErrorModel]
    $loss unit pkt
    $loss set rate_ $parameter(loss)
    $loss ranvar [new RandomVariable/Uniform]
    $loss drop-target [new Agent/Null]
    $ns link-lossmodel $loss $r $d
}
set agent [ftp_flow $ns $s $d [random_start 0.1] [list kind $parameter(tcp) \
    segment $parameter(segment) window $parameter(window) \
    dupthresh $parameter(dupthresh) delack $parameter(delack) \
    dupsend $parameter(dupsend) overhead $parameter(overhead) minrto $parameter(minrto)]]

run_and_report $ns [list $agent] $parameter(segment) $parameter(warmup) $parameter(duration) $parameter(count) 1
