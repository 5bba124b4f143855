//! The configuration file, the key files it names, and how files are opened: what of the program reads text of others, apart so that
//! it can be fuzzed.
#![forbid(unsafe_code)]

pub mod config;
pub mod entropy;
pub mod escape;
pub mod files;
pub mod keys;
pub mod openvpn_status;
pub mod state_lines;
