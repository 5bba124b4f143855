//! Code that several programs of this project use: readers of users' files and keys, and the exit status of commands.
//!
//! The configuration is read, checked and explained in `config`; `keys` and `files` safely open files in directories
//! that other users can change; `escape` makes text that others chose safe to show. This library runs no node. It is a
//! library so that it can be fuzzed, and so that `weft-lab` reads a scenario's settings as the daemon reads its file.
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
