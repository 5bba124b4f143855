# Paper 000's Figure 2: ten senders and ten receivers. A hundred NewReno FTPs and ten Pareto sources use
# N parallel paths, each of two core links. The traffic is sprayed packet by packet.
#
#   S1..S10 -- R0 -- Rk -- R1 -- D1..D10        k = 2..N+1
#
# Path k (from 0) has 10·(1 + k·difference) ms on each of its two core links.

source [file join [file dirname [info script]] common.tcl]

set pairs 10
set flows_per_pair 10
set link_bps 100e6

read_parameters parameter {
    paths 5 difference 0.25 dupthresh 3 delack none seed 1 duration 100 warmup 20
    queue 100 window 100 segment 512 spray destination
    dupsend 1 overhead 0 minrto 0.2 scheduler Calendar count 1
}

# Adds routes at `router` toward each of `destinations`, in round robin over all of `links`.
# ns-2's own multipath routing has one round robin per destination. With `spray=router` there is one per
# router, which every packet advances.
proc spray_over {router destinations links spray} {
    set turn ""
    foreach destination $destinations {
        if {$turn eq "" || $spray eq "destination"} {
            set turn [new Classifier/MultiPath]
            foreach link $links { $turn installNext [$link head] }
        }
        $router add-route [$destination id] $turn
    }
}

proc pareto_source {ns from to} {
    set udp [new Agent/UDP]
    set sink [new Agent/Null]
    $ns attach-agent $from $udp
    $ns attach-agent $to $sink
    $ns connect $udp $sink
    $udp set packetSize_ 500
    set source [new Application/Traffic/Pareto]
    $source set packetSize_ 500
    $source set burst_time_ 500ms
    $source set idle_time_ 500ms
    $source set shape_ 1.5
    $source set rate_ 10Mb
    $source attach-agent $udp
    $ns at [random_start 1.0] "$source start"
}

set ns [new_simulator $parameter(seed) $parameter(scheduler)]

set ingress [$ns node]
set egress [$ns node]
set senders {}
set receivers {}
for {set i 0} {$i < $pairs} {incr i} {
    set s [$ns node]
    set d [$ns node]
    join_nodes $ns $s $ingress $link_bps 1 $parameter(queue)
    join_nodes $ns $egress $d $link_bps 1 $parameter(queue)
    lappend senders $s
    lappend receivers $d
}
set forward {}
set backward {}
for {set k 0} {$k < $parameter(paths)} {incr k} {
    set middle [$ns node]
    set delay_ms [expr {10.0 * (1 + $k * $parameter(difference))}]
    join_nodes $ns $ingress $middle $link_bps $delay_ms $parameter(queue)
    join_nodes $ns $middle $egress $link_bps $delay_ms $parameter(queue)
    lappend forward [$ns link $ingress $middle]
    lappend backward [$ns link $egress $middle]
}

set agents {}
foreach s $senders d $receivers {
    for {set i 0} {$i < $flows_per_pair} {incr i} {
        lappend agents [ftp_flow $ns $s $d [random_start 1.0] [list kind newreno \
            segment $parameter(segment) window $parameter(window) \
            dupthresh $parameter(dupthresh) delack $parameter(delack) \
            dupsend $parameter(dupsend) overhead $parameter(overhead) minrto $parameter(minrto)]]
    }
    pareto_source $ns $s $d
}

# These replace ns-2's own static routes, which `run` installs before.
$ns at 0 "spray_over $ingress {$receivers} {$forward} $parameter(spray)"
$ns at 0 "spray_over $egress {$senders} {$backward} $parameter(spray)"

run_and_report $ns $agents $parameter(segment) $parameter(warmup) $parameter(duration) $parameter(count) 0
