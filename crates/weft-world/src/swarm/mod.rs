//! The swarm: random networks of real engines with random configurations, traffic and faults, held to what they promise.
//!
//! A seed decides everything: two to four nodes, now and then up to twelve, called by one hub or by each other, one to four access links
//! each; how each is configured; what is sent; what goes wrong and when (losses, copies, changed bytes, cuts, partitions, crashes, pauses,
//! other addresses, smaller MTUs, clocks that jump, firewalls, strangers who replay, sleep, lost state, full disks, reloads); and who
//! else is there: a guest with a certificate, a second node with one key, a member that lies. What must hold:
//!
//! | promise | kind of violation |
//! |---|---|
//! | a packet comes out at most once, unaltered, at its own node | `twice`, `altered`, `wrong peer` |
//! | … and never one whose source is not behind the peer | `forged` |
//! | … in its own VPN, where others use the same addresses and ports, and at members only | `wrong VPN` |
//! | where flows are resequenced, nothing overtakes before the hole was waited for | `order` |
//! | what was replayed, changed or invented is refused | `outsider` |
//! | strangers get cookies and refusals at most; a path follows its newest datagram | `stranger`, `wrong address` |
//! | packet numbers rise per path and key; a key ends after 180 s | `packet number`, `old key` |
//! | no datagram is longer than its link's MTU | `too long` |
//! | a node sends only when it was told something, or had asked to be woken | `lost wake-up` |
//! | windows and rates stay within bounds; in the end all that left is received or lost, though markers and reports were | `loop` |
//! | whose certificate does not hold, or whose key is revoked, sends and gets nothing | `expelled` |
//! | a key without the secret that goes with it opens nothing | `secret` |
//! | an address that answered nothing gets three times what came from it | `amplification` |
//! | data leaves by no link that is not to be sent on | `barred` |
//! | a configuration read again is taken, and changes nothing | `reload` |
//! | no packet that is not TCP's arrives 10 s after it was sent | `stale` |
//! | no panic; time passes | `panic`, `stuck` |
//! | 8 s after the faults (30 s after minutes of silence) all traffic flows, no session ends, nothing genuine is refused | `silence`, `lost`, `session lost`, `refused` |
//! | 13 s after that nothing is queued, in flight, held, or kept in a buffer | `memory` |

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
mod violation;
mod watch;
mod wire;
mod world;

pub use run::Outcome;
pub use search::{Failure, Found, explain, run, search};
pub use violation::Violation;
