//! Requests in band: one link, several links, and a network with faults.
#![allow(missing_docs)]

mod admission;
mod faults;
mod shares;
