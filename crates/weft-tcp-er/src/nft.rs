//! Runs nft(8) as a child process that owns a table.
//!
//! The kernel removes the table as soon as the child ends. The child ends when its standard input closes, however this
//! process ends.

use std::io::{self, BufRead as _, BufReader, PipeReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Directories of programs that only root uses, in addition to PATH.
const PLACES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// Returns the path of a program that only root uses, if this machine has it.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(PLACES.map(PathBuf::from));
    places.map(|place| place.join(name)).find(|file| file.is_file())
}

/// Returns the path of nft, if this machine has it.
pub fn program() -> Option<PathBuf> {
    find_program("nft")
}

/// Tests whether the kernel accepts these rules, without any change.
///
/// # Errors
/// Fails with nft's message, or if nft is missing.
pub fn check(rules: &str) -> io::Result<()> {
    let mut child = command()?.args(["-c", "-f", "-"]).stdout(Stdio::null()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        writeln!(stdin, "{rules}")?;
    }
    let mut said = String::new();
    child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said)).transpose()?;
    match child.wait()?.success() {
        true => Ok(()),
        false => Err(io::Error::other(said.lines().next().unwrap_or("nft failed").to_owned())),
    }
}

fn command() -> io::Result<Command> {
    let program =
        program().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "nft is missing: install nftables"))?;
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// The child process and its table.
pub struct Session {
    /// Command that prints a chain of the table.
    show: String,
    child: Child,
    stdin: ChildStdin,
    /// Output and errors of the child, in order.
    said: BufReader<PipeReader>,
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Session {
    /// Creates the table of family inet that `rules` describe in one line. `chain` names one of its chains.
    ///
    /// # Errors
    /// Fails if nft is missing or rejects the rules.
    pub fn create(table: &str, chain: &str, rules: &str) -> io::Result<Session> {
        let (said, says) = io::pipe()?;
        let mut child = command()?.arg("-i").stdout(says.try_clone()?).stderr(says).spawn()?;
        let stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let show = format!("list chain inet {table} {chain}");
        let mut session = Session { show, child, stdin, said: BufReader::new(said) };
        session.run(rules)?;
        Ok(session)
    }

    /// Executes one line of nft commands.
    ///
    /// # Errors
    /// Fails if nft rejects the line.
    pub fn run(&mut self, line: &str) -> io::Result<()> {
        self.say(line)?;
        self.confirm()
    }

    fn say(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.stdin, "{line}").and_then(|()| self.stdin.flush())
    }

    /// Makes nft print a chain and reads to its end. By then nft has executed or rejected all earlier commands.
    fn confirm(&mut self) -> io::Result<()> {
        let show = self.show.clone();
        self.say(&show)?;
        let mut line = String::new();
        loop {
            line.clear();
            if self.said.read_line(&mut line)? == 0 {
                return Err(io::Error::other("nft ended"));
            }
            if line.starts_with("Error") {
                return Err(io::Error::other(format!("nft: {}", line.trim_end())));
            }
            if line.starts_with('}') {
                return Ok(());
            }
        }
    }
}
