//! Command lines of the programs, and what a terminal shows.
//!
//! [`parse`] reads a command line. It prints help and mistakes as wide as the terminal, and proposes the name that a
//! misspelt one probably stands for. The programs use [`size`], [`wants_color`] and [`fold_line`] for their own output.
//! The crate knows nothing of networks.
#![deny(unsafe_code)]

mod command_line;
mod fold;
mod terminal;

pub use command_line::parse;
pub use fold::fold_line;
pub use terminal::{size, wants_color};
