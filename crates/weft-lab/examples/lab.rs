//! Runs a scenario without the `weft` command: `cargo run --example lab -- FILE [VARIANT…]`.

use std::path::PathBuf;
use weft_lab::{RunOptions, run};
use weft_report::run_table;
use weft_scenario::Scenario;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    weft_lab::net::acquire_privilege()?;
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("which scenario?")?;
    let scenario = Scenario::parse(&std::fs::read_to_string(&file)?, &file)?;
    let options = RunOptions {
        out: Some("out".into()),
        variants: arguments.collect(),
        weft_binary: std::env::var_os("WEFT").map(PathBuf::from),
        traces: std::env::var_os("TRACES").map(PathBuf::from),
        progress: true,
        ..RunOptions::default()
    };
    print!("{}", run_table(&run(&scenario, &options)?));
    Ok(())
}
