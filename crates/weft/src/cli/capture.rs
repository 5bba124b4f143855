//! Arguments of `weft capture`.

use super::Control;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `weft capture`.
#[derive(Args)]
pub struct CaptureArguments {
    /// New file for the capture, or - for standard output
    #[arg(short = 'w', long = "write", value_name = "FILE", required = true)]
    pub write: PathBuf,
    /// Capture the datagrams on the links; the default without --inner
    #[arg(long)]
    pub outer: bool,
    /// Capture the packets on the tunnel's devices; only their headers, without --payload
    #[arg(long)]
    pub inner: bool,
    /// Capture datagrams on this link only, named as in `weft paths`; without it on all links
    #[arg(long, value_name = "NAME")]
    pub link: Option<String>,
    /// Capture only the traffic of this peer, named as in `weft status`; without it that of all peers
    #[arg(long, value_name = "NAME")]
    pub peer: Option<String>,
    /// With --inner, capture only the packets of this VPN; `default` is the default VPN. Without it: those
    /// of all VPNs
    #[arg(long, value_name = "NAME", requires = "inner")]
    pub vpn: Option<String>,
    /// End after this number of packets in all, at least 1
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// End after this time: 10s, 5m, 2h
    #[arg(long = "for", value_name = "TIME", value_parser = weft_config::argument::duration)]
    pub time: Option<Duration>,
    /// Store at most this number of bytes of each packet, at least 1. Without it: whole datagrams on the links; on the
    /// tunnel's devices the headers, or with --payload whole packets
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    pub snap: Option<u32>,
    /// With --inner, store the payload of packets on the tunnel's devices, too
    #[arg(long, requires = "inner")]
    pub payload: bool,
    /// Print the summary as one JSON object on standard output
    #[arg(long)]
    pub json: bool,
    /// Control socket of the node.
    #[command(flatten)]
    pub control: Control,
}
