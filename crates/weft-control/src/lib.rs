//! The control protocol of a running node: one JSON object per line, a request and its response, over a Unix socket.
//!
//! A client sends a [`Request`], and the node answers it with a [`Response`]. [`Request::Watch`] returns events.
//! [`status`] has the types of the answers, which `--json` prints too. [`socket`] writes and reads the lines, with
//! their time and length limits. The crate does not depend on the engine or on a configuration.
//!
//! `docs/control.schema.json` describes the same messages for programs in other languages. A test writes it from these
//! types.
#![forbid(unsafe_code)]

mod clients;
mod request;
mod response;
#[cfg(test)]
mod schema_tests;
pub mod socket;
pub mod status;

pub use clients::{AccessClient, ClientProgram, ClientRefusals};
pub use request::{CANDIDATE_SUFFIX, DrillCut, Request, VpnSetting};
pub use response::{PathChange, Pong, Response};
