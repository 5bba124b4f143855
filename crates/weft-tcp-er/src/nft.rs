//! nft(8) as a child that keeps a table: the table has an owner, so that the kernel removes it as soon as the child has gone, and the
//! child goes when its standard input closes, however this process ends.

use std::io::{self, BufRead as _, BufReader, PipeReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Where Debian and others keep what only root uses, beside what is in PATH.
const PLACES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// Where a program is that only root uses, if this machine has it.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(PLACES.map(PathBuf::from));
    places.map(|place| place.join(name)).find(|file| file.is_file())
}

/// nft, if this machine has it.
pub fn program() -> Option<PathBuf> {
    find_program("nft")
}

/// Asks the kernel, without changing anything, whether it takes these rules.
///
/// # Errors
/// What nft says, or that there is none.
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
        program().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "there is no nft; install nftables"))?;
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// The child and its table.
pub struct Session {
    /// Shows a chain of the table.
    show: String,
    child: Child,
    stdin: ChildStdin,
    /// What it shows and what it complains of, in order.
    said: BufReader<PipeReader>,
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Session {
    /// Makes the table of family inet that `rules`, one line, describe; one of its chains is `chain`.
    ///
    /// # Errors
    /// When nft is missing or refuses.
    pub fn create(table: &str, chain: &str, rules: &str) -> io::Result<Session> {
        let (said, says) = io::pipe()?;
        let mut child = command()?.arg("-i").stdout(says.try_clone()?).stderr(says).spawn()?;
        let stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let show = format!("list chain inet {table} {chain}");
        let mut session = Session { show, child, stdin, said: BufReader::new(said) };
        session.run(rules)?;
        Ok(session)
    }

    /// Does what a line says.
    ///
    /// # Errors
    /// When nft refuses.
    pub fn run(&mut self, line: &str) -> io::Result<()> {
        self.say(line)?;
        self.confirm()
    }

    fn say(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.stdin, "{line}").and_then(|()| self.stdin.flush())
    }

    /// Has nft show a chain, and reads to its end: what it was told before is done then, or it has complained.
    fn confirm(&mut self) -> io::Result<()> {
        let show = self.show.clone();
        self.say(&show)?;
        let mut line = String::new();
        loop {
            line.clear();
            if self.said.read_line(&mut line)? == 0 {
                return Err(io::Error::other("nft has ended"));
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
