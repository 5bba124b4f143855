//! Diversion of an interface's packets to this process, for as long as the process lives.

use super::redirection::Redirection;
use super::rules::{self, Handover};
use crate::config::host::Host;
use std::io;
use weft_io::netfilter::{Copies, NetfilterQueue};
use weft_tcp_er::nft::NftSession;

/// Maximum number of diverted packets that wait in the kernel for this process's verdict.
const MOST_WAITING: u32 = 1_024;
/// Base of the numbers of the netfilter queue and log group, chosen to avoid those of other programs.
///
/// The interface index is added.
const NUMBERS: u16 = 0x7000;

/// The queue of diverted packets, the copies of packets, and the rules for both. Dropping it removes the rules first.
pub struct Diversion {
    _table: NftSession,
    _redirection: Option<Redirection>,
    pub queue: NetfilterQueue,
    pub copies: Copies,
    pub handover: Handover,
}

impl Diversion {
    /// Diverts the packets of the interface with this index.
    ///
    /// # Errors
    /// Returns the error of the kernel, nft or iptables.
    pub fn begin(config: &Host, index: u32) -> io::Result<Diversion> {
        let number = NUMBERS | (index & 0xfff) as u16;
        let what = |what: &'static str| move |why: io::Error| io::Error::new(why.kind(), format!("{what}: {why}"));
        let queue = NetfilterQueue::open(number, MOST_WAITING).map_err(what("cannot open NFQUEUE"))?;
        let copies = Copies::open(number, rules::COPIED).map_err(what("cannot open NFLOG"))?;
        let table = |handover| {
            let text = rules::table(&config.interface, number, handover, &config.signal.rules);
            NftSession::create(&text)
        };
        match table(Handover::Queue) {
            Ok(table) => Ok(Diversion { _table: table, _redirection: None, queue, copies, handover: Handover::Queue }),
            Err(why) => {
                let also = |more: io::Error| {
                    io::Error::other(format!(
                        "cannot divert packets (nftables: {why}; iptables: {more}): run as root, with one of the two"
                    ))
                };
                let redirection = Redirection::add(&config.interface, number).map_err(also)?;
                let table = table(Handover::Mark)?;
                let (handover, _redirection) = (Handover::Mark, Some(redirection));
                Ok(Diversion { _table: table, _redirection, queue, copies, handover })
            }
        }
    }
}
