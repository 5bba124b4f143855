//! Models the TCP of hosts without IO: the caller passes the time in and polls for segments.
//!
//! A [`TcpSender`] and a [`TcpReceiver`] are the two ends of one direction of a connection. Sequence numbers are the
//! numbers of payload bytes, from 0. A FIN takes one sequence number, and a SYN takes none.

mod config;
pub mod congestion;
mod delivery_rate;
mod receiver;
mod recovery;
mod rto;
mod scoreboard;
mod segment;
mod sender;
mod undo;

pub use config::{LossRecovery, SenderConfig, dup_thresh};
pub use receiver::{AckRule, ReceiverConfig, TcpReceiver, WindowOpening};
pub use segment::{Flags, SackBlock, TcpSegment};
pub use sender::{SenderCounters, TcpSender};
