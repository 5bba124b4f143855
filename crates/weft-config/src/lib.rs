//! Code that both programs of weft use: readers of files and keys that users write, and the exit status of commands.
//!
//! The configuration is read, checked and explained in `config`; `keys` and `files` open files in directories of other
//! users; `escape` makes text from outside safe to show. Nothing here runs a node. It is a library so that it can be
//! fuzzed, and so that `weft-lab` reads a scenario's settings as the daemon reads its file.
#![forbid(unsafe_code)]

pub mod argument;
pub mod beside;
pub mod config;
pub mod entropy;
pub mod escape;
pub mod files;
pub mod keys;
pub mod openvpn_status;
pub mod outcome;
pub mod state_lines;
