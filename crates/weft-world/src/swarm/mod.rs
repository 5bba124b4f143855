//! The swarm: random networks of real engines with random configurations, traffic and faults.
//!
//! The seed decides everything: two to four nodes (rarely up to twelve), the hub or mesh that joins them, one
//! to four access links for each node, the configuration of each node, the traffic, and the faults with their
//! times. Faults are losses, copies, changed bytes, cuts, partitions, crashes, pauses, address changes,
//! smaller MTUs, clock jumps, firewalls, replays by strangers, sleep, lost state, full disks and reloads. A
//! seed may add a guest with a certificate, a second node with the same key, or a member that lies. These invariants
//! must hold:
//!
//! | invariant | kind of violation |
//! |---|---|
//! | a packet is delivered at most once, unaltered, at its own node (see below) | `twice`, `altered`, `wrong peer` |
//! | a packet is delivered only if its source is behind the peer | `forged` |
//! | a packet stays in its VPN, also where others use the same addresses, and reaches members only | `wrong VPN` |
//! | where flows are resequenced, no packet overtakes another before the hold time is over | `order` |
//! | replayed, changed and invented datagrams are refused | `outsider` |
//! | a node sends only cookies and refusals to a stranger | `stranger` |
//! | a node sends on a path to the source of the path's newest datagram | `wrong address` |
//! | the packet numbers under one key rise on each path; a key ends after 180 s | `packet number`, `old key` |
//! | no datagram is longer than its link's MTU | `too long` |
//! | a node sends only after an input, or at a time at which it asked to be woken | `lost wake-up` |
//! | no peer makes a node wait for a missing unit for more than 5 s | `hold` |
//! | windows and rates stay within bounds; at the end every unit is recorded as received or lost | `loop` |
//! | a node with an invalid certificate or a revoked key sends and receives nothing | `expelled` |
//! | a key without its preshared secret opens no session | `secret` |
//! | an unproved address gets at most three times the bytes that arrived from it | `amplification` |
//! | data leaves by no link that is configured not to send | `barred` |
//! | a configuration that is read again is accepted and changes nothing | `reload` |
//! | no packet arrives later than 10 s after it was sent, except TCP | `stale` |
//! | no panic; time passes | `panic`, `stuck` |
//! | 8 s after the faults (30 s after minutes of silence) all traffic flows | `silence`, `lost` |
//! | from then on no session ends, and nothing genuine is refused | `session lost`, `refused` |
//! | 13 s after that nothing is queued, in flight, held, or kept in a buffer | `memory` |
//!
//! A node that was killed or suspended may deliver a TCP segment a second time.

mod acting;
mod fault;
mod judge;
mod liar;
mod packet;
mod plan;
mod role;
mod run;
mod search;
mod site;
mod spin;
mod violation;
mod watch;
mod wire;
mod world;

pub use run::SwarmOutcome;
pub use search::{FailedSeed, SearchResult, explain, run, search};
pub use violation::Violation;
