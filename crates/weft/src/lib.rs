//! Library of the code that reads foreign text.
//!
//! It parses the configuration file and the key files that it names, and opens files.
//!
//! It is separate from the program so that it can be fuzzed.
#![forbid(unsafe_code)]

pub mod config;
pub mod entropy;
pub mod escape;
pub mod files;
pub mod keys;
pub mod openvpn_status;
pub mod state_lines;
