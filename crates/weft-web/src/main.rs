//! `weft-web`: a page that shows a running node live.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use weft_web::cli::Cli;

fn main() -> ExitCode {
    match weft_web::run(weft_terminal::parse::<Cli>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("weft-web: {why}");
            ExitCode::FAILURE
        }
    }
}
