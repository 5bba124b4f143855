//! Output of other programs: the log in the journal, and the tables, rules and routes of the kernel.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use weft_tcp_er::nft::find_program;

/// Maximum output that a report takes from one program, in bytes (*tuned*: issue trackers accept about 64 KiB of text).
const MOST_OUTPUT: u64 = 64 << 10;
/// Maximum run time of one program, which is killed then.
///
/// *Tuned*: nft lists a table of 10,000 elements within a second.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval between two checks whether a program still runs.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Beginning of the names of weft's nft tables.
const TABLE_PREFIX: &str = "weft_";
/// Protocol numbers of weft's rules and routes, as `ip` prints them.
const OWN_PROTOCOLS: [&str; 2] = ["proto 119", "proto 120"];

/// Returns the last lines of the service's log in the journal.
///
/// # Errors
/// Returns the reason why the lines cannot be read.
pub fn journal(lines: usize) -> Result<Vec<String>, String> {
    let lines = lines.to_string();
    run("journalctl", &["--unit=weft", "--output=cat", "--no-pager", "--quiet", "--lines", &lines])
}

/// Returns weft's tables of nft.
///
/// # Errors
/// Returns the reason why they cannot be listed.
pub fn tables() -> Result<Vec<String>, String> {
    let mut text = Vec::new();
    for line in run("nft", &["list", "tables"])? {
        let words: Vec<_> = line.split_whitespace().collect();
        if let ["table", family, name] = words[..]
            && name.starts_with(TABLE_PREFIX)
        {
            text.extend(run("nft", &["list", "table", family, name])?);
        }
    }
    Ok(text)
}

/// Returns weft's routing rules and routes of both families.
///
/// # Errors
/// Returns the reason why they cannot be listed.
pub fn routes() -> Result<Vec<String>, String> {
    let mut text = Vec::new();
    for family in ["-4", "-6"] {
        for what in [&["rule", "show"][..], &["route", "show", "table", "all"]] {
            text.extend(run("ip", &[&["-d", "-N", family], what].concat())?);
        }
    }
    let is_own = |line: &String| OWN_PROTOCOLS.iter().any(|own| line.contains(own));
    text.retain(is_own);
    Ok(text)
}

fn run(name: &str, arguments: &[&str]) -> Result<Vec<String>, String> {
    let program = find_program(name)
        .ok_or_else(|| format!("the program {name} is not installed, so its output is missing here"))?;
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|why| format!("{name}: {why}"))?;
    let stdout = child.stdout.take();
    let reader = thread::spawn(move || {
        let mut output = Vec::new();
        let read = stdout.map(|stdout| stdout.take(MOST_OUTPUT).read_to_end(&mut output));
        read.transpose().map(|_| output)
    });
    let began = Instant::now();
    // The reader ends after `MOST_OUTPUT` bytes, too, and closes the pipe. A program that continues to write then
    // ends by itself.
    while child.try_wait().map_err(|why| format!("{name}: {why}"))?.is_none() {
        if began.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!(
                "the program {name} did not end within {} s and was killed: run weft bugreport again",
                PATIENCE.as_secs()
            ));
        }
        thread::sleep(LOOK_INTERVAL);
    }
    let status = child.wait().map_err(|why| format!("{name}: {why}"))?;
    let failed = |_| format!("cannot read the output of the program {name}: run weft bugreport again");
    let output = reader.join().map_err(failed)?;
    let output = output.map_err(|why| format!("{name}: {why}"))?;
    if output.is_empty() && !status.success() {
        return Err(format!("the program {name} failed: run weft bugreport as root"));
    }
    Ok(String::from_utf8_lossy(&output).lines().map(|line| line.replace('\t', "    ")).collect())
}
