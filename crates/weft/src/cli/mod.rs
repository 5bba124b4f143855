//! Command line of `weft`: its subcommands, arguments and help texts.
//!
//! The doc comments of the clap structures in this module and its children are the program's help texts. `commands`
//! executes what this module parses. This module reads and changes nothing on the machine.

mod access;
mod acl;
mod bugreport;
mod ca;
mod capture;
mod change;
mod join;
mod live;
mod plan;
mod qos;

pub use access::{AccessCommand, AddOptions};
pub use acl::{AclCommand, TestedFlow};
pub use bugreport::{BugReportArguments, Disclosure};
pub use ca::{CaCommand, RevokedNode, SignOptions};
pub use capture::CaptureArguments;
pub use change::{
    ApplyArguments, ChangeOptions, ClassesCommand, ConfirmArguments, NewRule, RulesCommand, SetArguments, TestedPacket,
    UnsetArguments,
};
pub use join::{InitOptions, InviteOptions, JoinOptions};
pub use live::{
    DrillCommand, DrillOptions, ExplainArguments, PeerCommand, PrefixArguments, TopArguments, VpnsCommand,
    WeightsCommand,
};
pub use plan::{GivenRate, PlanArguments};
pub use qos::{QosArguments, QosView};

use crate::screen::Color;
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// Many imperfect links, one private network that is fast and stays up.
#[derive(Parser)]
#[command(
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  weft keygen --out weft.key            make this node's key and print the public key for the peers
  weft check /etc/weft/weft.toml        report each mistake, with line, column and the likely fix
  weft up -c /etc/weft/weft.toml        run the node
  weft paths --watch                    show what each path carries, once a second

Exit status: 0 success, 1 failed, 2 wrong command line, 3 the command ran and found that something
does not work (its help says what), 4 no node runs."
)]
pub struct Cli {
    /// When to colour the output: always, never, or auto: on a terminal that supports it. With auto, NO_COLOR and
    /// CLICOLOR_FORCE decide first
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t, hide_possible_values = true)]
    pub color: Color,
    /// Subcommand to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Subcommands of `weft`.
#[derive(Subcommand)]
pub enum Command {
    /// Make this machine the hub of a new network
    #[command(after_help = "\
Examples:
  weft init --hub                                      then: systemctl enable --now weft
  weft init --hub --exit                               nodes may also reach the Internet through it
  weft init --hub --endpoint 203.0.113.5:51900         behind a router that forwards this port,
                                                       for UDP and TCP

It writes keys, a certificate and weft.toml to the directory --dir, and prints the ports to open. It
overwrites nothing: it fails if weft.toml, weft.cert or ca/root.key exists there. It uses a weft.key
that exists. The root key stays in the subdirectory `ca`. Its holder can admit nodes to the
network.")]
    Init(InitOptions),
    /// Invite a node to the network of this hub: print a code and wait until the node has joined
    #[command(after_help = "\
Examples:
  weft invite laptop                                   then, on the laptop: weft join
  weft invite branch --prefix 192.168.7.0/24           a site with a network behind it
  weft invite phone --for 2h --days 30

The code works once and until the time is over. Ctrl-C withdraws it.")]
    Invite(InviteOptions),
    /// Join a network by a code from `weft invite`
    #[command(after_help = "\
Examples:
  weft join                                asks for the code; then: systemctl enable --now weft
  weft join --exit                         everything goes through the inviting node
  weft join --dir /tmp/weft <code.txt      the files go to another directory

It calls the inviting node over TCP, receives a certificate for a key made here, and writes keys and
weft.toml. It overwrites nothing: it fails if weft.toml or weft.cert exists. It uses a weft.key that
exists.")]
    Join(JoinOptions),
    /// Create a private key and print its public key
    #[command(after_help = "\
Examples:
  weft keygen --out /etc/weft/weft.key      the private key goes to a new file, mode 0600
  weft keygen                               the private key goes to standard output,
                                            the public one to standard error")]
    Keygen {
        /// File for the private key; it must not exist yet. Without it: standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Create a secret for two nodes (`[[peer]] preshared-key`); with it, no later quantum computer reads recorded
    /// traffic
    #[command(after_help = "\
Examples:
  weft genpsk --out /etc/weft/hub.psk       the secret goes to a new file, mode 0600;
                                            the peer needs the same file
  weft genpsk                               the secret goes to standard output")]
    Genpsk {
        /// File for the secret; it must not exist yet. Without it: standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Print the version
    Version,
    /// Print the public key of a private key
    #[command(after_help = "\
Examples:
  weft pubkey /etc/weft/weft.key
  weft keygen 2>/dev/null | weft pubkey")]
    Pubkey {
        /// File of the private key; without it or with -: standard input
        file: Option<PathBuf>,
    },
    /// Admit nodes to a network by certificate: create the root key, sign certificates, revoke keys
    #[command(subcommand)]
    Ca(CaCommand),
    /// Admit unmodified clients of WireGuard and OpenVPN at this edge, such as telephones and laptops
    #[command(subcommand)]
    Access(AccessCommand),
    /// Check a configuration: every mistake with its line, column and likely fix; exit status 1 if a node would refuse
    /// the file
    Check {
        /// Configuration file
        #[arg(value_name = "FILE", default_value = DEFAULT_CONFIG)]
        file: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Change a setting in the file, and in the node if it runs; comments in the file stay
    #[command(after_help = "\
Examples:
  weft set link.lte.max-rate-up '20 Mbit/s'            adds the [[link]] table if there is none
  weft set peer.hub.endpoints '[\"192.0.2.1:51900\"]'
  weft set users.by host --confirm 60s                 undone after a minute,
                                                       unless you run weft confirm

A change that `weft check` would refuse changes nothing.")]
    Set(SetArguments),
    /// Remove a setting or a table from the file, and from the node if it runs
    #[command(after_help = "\
Examples:
  weft unset link.lte.max-rate-up
  weft unset rule.calls --confirm 60s")]
    Unset(UnsetArguments),
    /// Replace the whole configuration, in the file and in the node if it runs
    #[command(after_help = "\
Examples:
  weft apply new.toml
  weft apply new.toml --confirm 60s                    undone after a minute,
                                                       unless you run weft confirm")]
    Apply(ApplyArguments),
    /// Keep the change that was made with `--confirm`: write it to the file. Before, only the running node has it
    #[command(after_help = "Example:\n  weft confirm                        after: weft set … --confirm 60s")]
    Confirm(ConfirmArguments),
    /// Undo the change that was made with `--confirm`, without waiting for its time to pass
    #[command(after_help = "Example:\n  weft undo                           after: weft set … --confirm 60s")]
    Undo(Control),
    /// Report properties of this machine that help or hinder a node, and commands with which a router puts the tunnel's
    /// packets into a separate queue
    #[command(after_help = "\
Examples:
  weft doctor
  weft doctor -c weft.toml --json | jq '.checks[] | select(.verdict != \"good\")'
  weft doctor --peer hub           test each link to the peer `hub`

If the configuration sets a DSCP, doctor prints commands for the router at the bottleneck, in the
syntax of Linux, Cisco IOS and Junos. In a separate queue there, the tunnel's packets do not wait
behind other traffic. doctor runs none of these commands.

Exit status 3 if a node cannot run on this machine, or if the peer has no session.")]
    Doctor {
        /// Configuration file; without it /etc/weft/weft.toml, if that exists
        #[arg(short, long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Name of a peer, as in `weft status`: test the running node's connection to it, instead of this machine
        #[arg(long, value_name = "NAME")]
        peer: Option<String>,
        #[command(flatten)]
        control: Control,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Collect data for an issue: status, configuration, log, findings of `weft doctor`, weft's nftables tables and
    /// routes. No secrets, and by default no names
    #[command(after_help = "\
Examples:
  weft bugreport --output report.txt                  labels such as peer-1 and addr-3
                                                      replace names and addresses
  weft bugreport --level trusted --json | jq .version

It shows no key, password or code. Read the report before you publish it.")]
    Bugreport(BugReportArguments),
    /// Run the node in the foreground until SIGTERM or `weft down`; SIGHUP reloads the configuration
    #[command(after_help = "\
Examples:
  weft up -c /etc/weft/weft.toml
  weft up -v            more log lines; -q: errors only

It needs CAP_NET_ADMIN for the TUN device and its routes. As a service: systemctl enable --now weft")]
    Up {
        /// Configuration file
        #[arg(short, long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
        /// Print more log lines
        #[arg(short, long)]
        verbose: bool,
        /// Print errors only
        #[arg(short, long, conflicts_with = "verbose")]
        quiet: bool,
    },
    /// Keep the congestion control `weft_er` loaded in the kernel, without a node, until SIGTERM or Ctrl-C
    #[command(after_help = "\
Examples:
  weft tcp-er                                          then: iperf3 -c HOST -C weft_er --fq-rate 20M
  weft tcp-er --grant 192.0.2.0/24='20 Mbit/s'         for connections there whose program
                                                       sets no rate

`weft_er` sends each connection at the rate that it is given. A program selects it with
TCP_CONGESTION, and gives the rate with SO_MAX_PACING_RATE; otherwise --grant gives it. A connection
without a rate is ordinary TCP: slow start, then additive increase and multiplicative decrease.

The command needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, and Linux 6.0 or later with BTF. A node
loads `weft_er` if its configuration has [tcp-er].")]
    TcpEr {
        /// Rate of each connection toward a prefix, if its program sets no rate: 192.0.2.0/24='20 Mbit/s'. Can be given
        /// several times; the longest prefix applies
        #[arg(long = "grant", value_name = "PREFIX=RATE")]
        grants: Vec<String>,
    },
    /// Request and grant rates for the flows of one interface, by an IP option in their packets, without a node, until
    /// SIGTERM or Ctrl-C
    #[command(after_help = "\
Examples:
  weft signal -c /etc/weft/signal.toml
  weft signal -c signal.toml --check       report each mistake

Run it at both ends of a flow: on the two hosts, or on a router in front of each host. Both ends
grant a rate, and the flow is granted the lower one. The end that only receives needs `interface`
and `rate`, but no rules.

The command limits no flow itself. A TCP connection of this machine whose program selects `weft_er`
sends at its granted rate; the command loads `weft_er` (see `weft tcp-er --help`). All other flows,
also those that a router forwards, can send more than they are granted. Their grants only lower what
the command grants to later flows. -v logs each grant.

A sender's configuration has at least these keys; docs/operate/signalling.md lists all of them:
  [signal]
  interface = \"eth0\"
  rate = \"100 Mbit/s\"       # what it grants in total to the flows that leave by the interface;
                            # the same again to those that arrive, unless `rate-down` is set
  [[signal.rule]]           # flows that ask for a rate; without other keys: all TCP flows, and
                            # each asks for as much as is available
  name = \"all\"

nftables hands a few packets of these flows to the command, and all that arrive with IP options. No
other packet waits for it. The command needs CAP_NET_ADMIN, CAP_NET_RAW and nftables; if the kernel
has no queue expression for nftables, it needs iptables as well.")]
    Signal {
        /// Configuration file of this command, which is not a node's
        #[arg(short, long, value_name = "FILE", default_value = SIGNAL_CONFIG)]
        config: PathBuf,
        /// Check the configuration and exit; exit status 1 if it is refused
        #[arg(long)]
        check: bool,
        /// Print more log lines
        #[arg(short, long)]
        verbose: bool,
        /// Print errors only
        #[arg(short, long, conflicts_with = "verbose")]
        quiet: bool,
    },
    /// Turn on the kill switch of a configuration before a node runs: nothing then leaves outside the tunnel.
    /// weft-guard.service runs this while the machine boots
    #[command(after_help = "\
Example:
  systemctl enable weft-guard           from the next boot on, nothing leaves before weft runs

The kill switch is `[out] kill-switch = true`. Without that key the command does nothing. Local
networks stay reachable, unless `[out] lan = false`. A node that starts takes the kill switch over.
`weft down` as root lifts it, also when no node runs.")]
    Guard {
        /// Configuration file
        #[arg(short, long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
    /// Stop the running node; it notifies its peers
    #[command(after_help = "\
It also lifts the kill switch, `[out] kill-switch`. Traffic can then leave outside the tunnel. As
root it lifts the kill switch even if no node runs.")]
    Down(Control),
    /// Make the running node read its configuration again; exit status 1, and no change, when it refuses the file
    Reload(Control),
    /// Show the state of the node and its peers; exit status 3 if a peer, a path or a link does not work
    #[command(after_help = "\
Exit status 3 if one of these is true:
  a [[peer]] has no session
  a peer with a session has no path, or a path that is down or still opening
  a link that the configuration names is not in use
  [network] has contacts, and the node has reached no other node of the overlay")]
    Status(Reading),
    /// Show each path: state, delay, loss, capacity, traffic
    #[command(after_help = "\
Examples:
  weft paths --watch
  weft paths --json | jq '.peers[].paths[] | {link, state, rtt_us}'")]
    Paths(Reading),
    /// Repair the data that the node has stored about a peer
    #[command(subcommand)]
    Peer(PeerCommand),
    /// Show which addresses lie behind which peer, and the source of this information
    #[command(after_help = "\
Examples:
  weft prefixes
  weft prefixes --peer hub --json | jq -r '.prefixes[].prefix'")]
    Prefixes(PrefixArguments),
    /// Show the flows that the node sent last, at most 64 to each peer
    Flows(Reading),
    /// Show links, paths, peers and the fastest flows live on the whole screen
    #[command(after_help = "\
Examples:
  weft top                            keys: a: all, p: paths, f: flows, n: node, q: quit
  weft top --once                     one page, without a terminal too")]
    Top(TopArguments),
    /// Show the classes, guarantees and shares of each flow, user and egress port, and the reasons
    #[command(after_help = "\
Examples:
  weft qos                            all views on the whole screen; keys change the view
  weft qos flows --top 10 --watch     the fastest flows, once a second
  weft qos users                      the users and their traffic
  weft qos ports                      capacity, guarantees and delay toward each peer
  weft qos why 10.9.0.2               why the flows of this host have their class and rates
  weft qos rules add web --class interactive protocol=tcp ports=443
  weft qos classes set voice guaranteed='100 kbit/s'

Rules and classes are in the configuration: [[rule]] and [[class]].")]
    Qos(QosArguments),
    /// Show how many packets the rules of access dropped, or test whether they accept a flow from a peer
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "\
Examples:
  weft acl                              how many rules, flows, dropped packets; the last dropped one
  weft acl test laptop 10.9.0.1 tcp 22  whether it is accepted, and by which [[allow]] table"
    )]
    Acl {
        /// Test; without one, show the counters.
        #[command(subcommand)]
        test: Option<AclCommand>,
        /// Options for showing.
        #[command(flatten)]
        reading: Reading,
    },
    /// Show the weights of the links, or set them; schedules such as weighted-round-robin use them
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "\
Examples:
  weft weights                          show them
  weft weights set eth0=50 wwan0=75     from the next packet on; other links keep their weights
  weft weights set measured             set weights in proportion to the measured capacity

If the file sets no weights, they are in proportion to the measured capacity."
    )]
    Weights {
        /// Action; without one, show the weights.
        #[command(subcommand)]
        set: Option<WeightsCommand>,
        /// Options for showing.
        #[command(flatten)]
        reading: Reading,
    },
    /// Show each VPN: traffic, rejected packets, queues and loops; or set its weight and its promised rates
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "\
Examples:
  weft vpns --watch
  weft vpns --json | jq '.vpns[] | {name, sent_bytes, strays}'
  weft vpns set blue weight=3 assured='4 Mbit/s'     until the next reload
  weft vpns set blue assured=none"
    )]
    Vpns {
        /// Action; without one, show the VPNs.
        #[command(subcommand)]
        set: Option<VpnsCommand>,
        /// Options for showing.
        #[command(flatten)]
        reading: Reading,
    },
    /// Show measurements of the network: each path of this node, and the reports of relays about their neighbours
    #[command(after_help = "\
Examples:
  weft sense --watch
  weft sense --history hub      its paths over the last ten minutes and the last day
  weft sense --matrix           the links between all nodes of the overlay,
                                and the routes found on them
  weft sense --matrix --from hub
  weft sense --json | jq '.peers[] | {name, paths, reaches}'")]
    Sense {
        /// Show the history of the paths to this peer, named as in `weft status`
        #[arg(long, value_name = "NODE")]
        history: Option<String>,
        /// Show the links between all nodes of the overlay, and the routes found on them
        #[arg(long, conflicts_with = "history")]
        matrix: bool,
        /// With --matrix, show only the links of this node, named as in the column FROM
        #[arg(long, value_name = "NODE", requires = "matrix")]
        from: Option<String>,
        /// Options for showing.
        #[command(flatten)]
        reading: Reading,
    },
    /// Apply a revocation on the running node. The node ends its sessions with that key and informs all other nodes
    #[command(after_help = "\
Example:
  weft revoke home.revoked      the file that `weft ca revoke` wrote

A revocation cannot be taken back. To return, the node needs a new key.")]
    Revoke {
        /// File of the revocation, as `weft ca revoke` wrote it
        file: PathBuf,
        /// Control socket of the node.
        #[command(flatten)]
        control: Control,
    },
    /// Explain how the node forwards a flow, or whether it accepts one from a peer: prefix, rule of access, paths,
    /// queue, rate
    #[command(after_help = "\
Examples:
  weft explain 10.9.0.2                              the path of a packet to this address
  weft explain hub                                   the same, for a node's name
  weft explain 10.9.0.1:40000 10.9.0.2:80 tcp --json | jq '.paths[] | {link, takes_sparse, why}'
  weft explain hub 10.9.0.1:22 tcp                   whether this node accepts a flow of that node,
                                                     and by which [[allow]] table

To tell whether the [[allow]] tables here accept a flow, it needs SRC, PROTO and, for tcp and udp,
the port of DST.
Exit status 3 if no path would carry it, 1 if the rules of access here drop it.")]
    Explain(ExplainArguments),
    /// Write the packets that the node sends and receives to a pcapng file, for Wireshark
    #[command(after_help = "\
Examples:
  weft capture -w out.pcapng                       the datagrams on all links, until Ctrl-C
  weft capture -w out.pcapng --link eth0 --peer hub --for 10s
  weft capture -w out.pcapng --outer --inner       also the headers of the packets in the tunnel
  weft capture -w - | wireshark -k -i -            live

Without --count and --for it ends at Ctrl-C. It needs root or CAP_NET_RAW. Of the traffic on the
links it stores weft's datagrams only, not those of other programs.
The file is new and only its owner can read it.
Datagrams are encrypted; --inner --payload stores the payload of packets in clear.")]
    Capture(CaptureArguments),
    /// Silence a link or a node on purpose for a while, and measure with probes for how long traffic stops
    #[command(
        subcommand,
        after_help = "\
Examples:
  weft drill link eth0 --for 5s
  weft drill node hub-a --json | jq '.peers[] | {peer, detected_us, gap_us, lost}'

The node drops datagrams in both directions. It ends the drill by itself, even if this command is
killed. From half a second before the cut to two seconds after it, the node sends probes to each
peer that it reaches over the link or node: one every 20 ms, to 16 peers at most. The report is
about these probes. The silenced node itself is probed only if no other peer is reached over it.

Without --force, the node refuses a drill that leaves a probed peer without a path. Exit status 3
if a probed peer answered no probe during the cut."
    )]
    Drill(DrillCommand),
    /// Simulate the measured links to a peer, as they are now and with changes: without a link, with another rate, with
    /// more sites
    #[command(after_help = "\
Examples:
  weft plan                                        the links as they are now
  weft plan --without wwan0 --with 'eth0=100 Mbit/s' --sites 10
                                                   three questions with an answer each
  weft plan --out home.toml                        also keep the scenario,
                                                   for: weft sim run home.toml

The simulator sends one TCP flow for 5 to 20 s in each direction and small packets, as a call does,
over links with the measured rate, delay and loss. It prints the goodput of the flows, the
round-trip time of the small packets without and beside the flows, and their longest gap.

Each --without, --with and --sites is a question of its own. Each answer changes only this in the
links as they are now. It runs `weft-lab`, which must be installed. Some figures are assumed if the
node did not measure them; it says which.")]
    Plan(PlanArguments),
    /// Measure the round-trip time to a peer through each path
    #[command(after_help = "\
Example:
  weft ping hub

It sends one probe on each path and waits 2 s at most. Exit status 1 if no path answers, 3 if only
some do.")]
    Ping {
        /// Name of the peer, as in `weft status`
        #[arg(value_name = "NODE")]
        peer: String,
        /// Options for showing.
        #[command(flatten)]
        reading: Reading,
    },
    /// Run the TCP proxy for the node with this device; the node starts this command itself
    #[command(hide = true)]
    Proxy {
        /// Name of the TUN device
        tun: String,
    },
    /// Show the node live on a page for a browser on this machine: runs `weft-web`
    #[command(disable_help_flag = true)]
    Web(OtherProgram),
    /// Keep the nodes, the policy and the configurations of a network in one place: runs `weft-controller`
    #[command(disable_help_flag = true)]
    Controller(OtherProgram),
    /// Emulate links on this machine's kernel, and compare weft with other tunnels on them by real applications: runs
    /// `weft-lab`
    #[command(disable_help_flag = true)]
    Lab(OtherProgram),
    /// Simulate such links in virtual time, with the packet code that a node runs: runs `weft-lab`; `weft sim run` is
    /// `weft-lab sim`
    #[command(disable_help_flag = true)]
    Sim(OtherProgram),
}

/// Arguments for another program of the project, which has a command line of its own.
#[derive(Args)]
pub struct OtherProgram {
    /// The arguments, as the `--help` of that program explains them
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// Option that names the running node.
#[derive(Args)]
pub struct Control {
    /// Control socket of the running node: `[node] control` of its configuration
    #[arg(long, value_name = "SOCKET", default_value = crate::config::DEFAULT_SOCKET)]
    pub control: PathBuf,
}

/// Options of commands that show the state of the node.
#[derive(Args)]
pub struct Reading {
    /// Print one JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Show the output again every second
    #[arg(long, short)]
    pub watch: bool,
    /// Control socket of the node.
    #[command(flatten)]
    pub control: Control,
}

/// Default path of the configuration of `weft signal`.
pub const SIGNAL_CONFIG: &str = "/etc/weft/signal.toml";
/// Default path of the node's configuration.
pub const DEFAULT_CONFIG: &str = "/etc/weft/weft.toml";
/// Default directory of configuration and keys.
pub const CONFIG_DIRECTORY: &str = "/etc/weft";
