//! The configuration file and the key files it names: what of the program reads text of others, apart so that it can be fuzzed.
#![forbid(unsafe_code)]

pub mod config;
pub mod keys;
