# Shared code of the three ns-2 cases: parameters, TCP flows, links, hop counting.
#
# ns-2 counts TCP sequence numbers in segments. Segment 0 is the SYN (40 B), every other
# segment carries `segment` bytes of payload under tcpip_base_hdr_size_ = 40 B of headers.

# Keeps only the headers that these cases use. Otherwise ns-2 zeroes every protocol's header in every
# packet, which costs speed and memory. Agent/UDP writes an RTP header. Without this header, its writes
# would overwrite the common header and corrupt the packets' sizes.
remove-all-packet-headers
add-packet-header IP TCP RTP Flags

# Reads name=value arguments over `defaults` (a list of names and values) into an array.
proc read_parameters {into defaults} {
    global argv
    upvar $into parameter
    array set parameter $defaults
    foreach argument $argv {
        if {![regexp {^([a-z_]+)=(.+)$} $argument all name value] || ![info exists parameter($name)]} {
            puts stderr "ns2 case: unknown parameter '$argument'; known: [dict keys $defaults]"
            exit 2
        }
        set parameter($name) $value
    }
}

# Returns a simulator with the given seed and event queue.
proc new_simulator {seed scheduler} {
    global defaultRNG
    set ns [new Simulator]
    $ns use-scheduler $scheduler
    $defaultRNG seed $seed
    return $ns
}

# Returns a random time in [0, spread_s).
proc random_start {spread_s} {
    global defaultRNG
    expr {[$defaultRNG uniform 0 1] * $spread_s}
}

# Joins two nodes with drop-tail links of `rate_bps`, a one-way delay of `delay_ms`, and `queue` packets.
proc join_nodes {ns a b rate_bps delay_ms queue} {
    $ns duplex-link $a $b $rate_bps ${delay_ms}ms DropTail
    foreach {from to} [list $a $b $b $a] { $ns queue-limit $from $to $queue }
}

# Counts the packets of every link in one monitor. Its departures are packets that left a queue and
# began transmission. At most one packet a link has not finished transmission.
proc count_hops {ns} {
    set monitor [new QueueMonitor]
    foreach link [$ns all-links-list] {
        $link attach-monitors [new SnoopQueue/In] [new SnoopQueue/Out] [new SnoopQueue/Drop] $monitor
    }
    return $monitor
}

# Starts an endless FTP from node `from` to node `to` at `start_s`, and returns its sender.
# settings: kind segment window dupthresh delack dupsend overhead minrto
proc ftp_flow {ns from to start_s settings} {
    array set s $settings
    switch -- $s(kind) {
        newreno { set sender [new Agent/TCP/Newreno]; set sink Agent/TCPSink }
        sack { set sender [new Agent/TCP/Sack1]; set sink Agent/TCPSink/Sack1 }
        bic - cubic - cubic-rfc { set sender [new_linux_sender $ns $s(kind)]; set sink Agent/TCPSink/Sack1 }
        default { puts stderr "ns2 case: unknown TCP '$s(kind)'"; exit 2 }
    }
    $sender set packetSize_ $s(segment)
    $sender set tcpip_base_hdr_size_ 40
    $sender set window_ $s(window)
    $sender set numdupacks_ $s(dupthresh)
    $sender set singledup_ $s(dupsend)
    $sender set overhead_ $s(overhead)
    $sender set minrto_ $s(minrto)
    switch -- $s(delack) {
        none { set receiver [new $sink] }
        standard { set receiver [new $sink/DelAck]; $receiver set interval_ 200ms }
        default { puts stderr "ns2 case: unknown delayed ACK '$s(delack)'"; exit 2 }
    }
    if {[string match Agent/TCP/Linux [$sender info class]]} { $receiver set ts_echo_rfc1323_ true }
    $ns attach-agent $from $sender
    $ns attach-agent $to $receiver
    $ns connect $sender $receiver
    set ftp [new Application/FTP]
    $ftp attach-agent $sender
    $ns at $start_s "$ftp start"
    return $sender
}

# Returns a sender with Linux's own congestion control code in ns-2. `cubic` is ns-2's default, Linux's
# CUBIC 2.1 with beta = 819/1024. `cubic-rfc` has RFC 9438's beta 0.7 = 717/1024.
proc new_linux_sender {ns kind} {
    set sender [new Agent/TCP/Linux]
    $sender set timestamps_ true
    $sender set ts_option_size_ 0
    $ns at 0 "$sender select_ca [lindex [split $kind -] 0]"
    if {$kind eq "cubic-rfc"} { $ns at 0 "$sender set_ca_param cubic beta 717" }
    return $sender
}

# Returns the number of acknowledged segments for each sender.
proc acked_segments {senders} {
    set all {}
    foreach sender $senders {
        set acked [$sender set ack_]
        lappend all [expr {$acked > 0 ? $acked : 0}]
    }
    return $all
}

# Returns the goodput of each flow in bit/s between two results of acked_segments.
proc goodputs_bps {before after segment seconds} {
    set all {}
    foreach b $before a $after { lappend all [expr {($a - $b) * $segment * 8.0 / $seconds}] }
    return $all
}

proc sum_of {senders variable} {
    set total 0
    foreach sender $senders { incr total [$sender set $variable] }
    return $total
}

# Runs from 0 to `duration`, measures from `warmup` on, and prints one line:
#   result goodput_bps;… hops sent retransmitted window_cuts drops
# goodput_bps has one value per flow if `each_flow`, otherwise the sum. hops and drops are - if not counted.
proc run_and_report {ns senders segment warmup duration count each_flow} {
    global reading monitor
    set monitor [expr {$count ? [count_hops $ns] : ""}]
    $ns at $warmup "set reading \[acked_segments {$senders}\]"
    $ns at $duration "report {$senders} $segment [expr {$duration - $warmup}] $each_flow"
    $ns run
}

proc report {senders segment seconds each_flow} {
    global reading monitor
    set goodputs [goodputs_bps $reading [acked_segments $senders] $segment $seconds]
    if {!$each_flow} { set goodputs [tcl::mathop::+ {*}$goodputs] }
    set rounded {}
    foreach goodput $goodputs { lappend rounded [format %.0f $goodput] }
    set hops [expr {$monitor eq "" ? "-" : [$monitor set pdepartures_]}]
    set drops [expr {$monitor eq "" ? "-" : [$monitor set pdrops_]}]
    puts "result [join $rounded {;}] $hops [sum_of $senders ndatapack_] [sum_of $senders nrexmitpack_] [sum_of $senders ncwndcuts1_] $drops"
    exit 0
}
