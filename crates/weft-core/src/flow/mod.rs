//! State that an edge keeps per flow.

pub mod ack_condition;
pub mod hash;
pub mod table;
