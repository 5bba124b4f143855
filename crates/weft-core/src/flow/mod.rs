//! What an edge remembers about a flow.

pub mod ack_condition;
pub mod hash;
pub mod table;
