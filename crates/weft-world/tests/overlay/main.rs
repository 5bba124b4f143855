//! Overlays of many nodes in virtual time: their experiments, their prefix owners, and networks that route over them.
#![allow(missing_docs)]

mod experiments;
mod network;
mod ownership;
