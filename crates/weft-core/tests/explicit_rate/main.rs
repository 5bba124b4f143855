//! Senders, routers and receivers that exchange signals for explicit rates (row B1).
#![allow(missing_docs)]

mod exchange;
mod shares;
