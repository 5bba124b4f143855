//! nft(8) as a child that keeps the table: the table has an owner, so that the kernel removes it as soon as the child has gone, and
//! the child goes when its standard input closes, however this process ends.

use super::policy::Policy;
use super::ruleset::{self, Listening, Names};
use std::io::{self, BufRead as _, BufReader, PipeReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Where Debian and others keep what only root uses, beside what is in PATH.
const PLACES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// The program, if this machine has it.
pub fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(PLACES.map(PathBuf::from));
    places.map(|place| place.join("nft")).find(|file| file.is_file())
}

/// Asks the kernel, without changing anything, whether it takes the rules of a proxy.
///
/// # Errors
/// What nft says, or that there is none.
pub fn check() -> io::Result<()> {
    let mut child = command()?.args(["-c", "-f", "-"]).stdout(Stdio::null()).spawn()?;
    let names = Names::of("weft0");
    let listening = Listening { ports: [[Some(1), Some(1)]; 4] };
    let policy = "1 *;both 192.0.2.0/24,2001:db8::/32 80".parse().map_err(io::Error::other)?;
    if let Some(mut stdin) = child.stdin.take() {
        writeln!(
            stdin,
            "{}\n{}",
            ruleset::table(&names),
            ruleset::open(&names, &policy, &listening).replace("; ", "\n")
        )?;
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

/// The table of one node.
pub struct Table {
    names: Names,
    child: Child,
    stdin: ChildStdin,
    /// What it shows and what it complains of, in order.
    said: BufReader<PipeReader>,
}

impl Drop for Table {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Table {
    /// Makes the table; it takes nothing in yet.
    ///
    /// # Errors
    /// When nft is missing or refuses.
    pub fn create(names: &Names) -> io::Result<Table> {
        let (said, says) = io::pipe()?;
        let mut child = command()?.arg("-i").stdout(says.try_clone()?).stderr(says).spawn()?;
        let stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut table = Table { names: names.clone(), child, stdin, said: BufReader::new(said) };
        table.say(&ruleset::table(names))?;
        table.confirm()?;
        Ok(table)
    }

    /// Takes new connections in as `policy` says.
    ///
    /// # Errors
    /// When nft refuses.
    pub fn open(&mut self, policy: &Policy, listening: &Listening) -> io::Result<()> {
        self.say(&ruleset::open(&self.names, policy, listening))?;
        self.confirm()
    }

    /// Takes no new connections in.
    ///
    /// # Errors
    /// When nft refuses.
    pub fn shut(&mut self) -> io::Result<()> {
        self.say(&ruleset::shut(&self.names))?;
        self.confirm()
    }

    fn say(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.stdin, "{line}").and_then(|()| self.stdin.flush())
    }

    /// Has nft show a chain, and reads to its end: what it was told before is done then, or it has complained.
    fn confirm(&mut self) -> io::Result<()> {
        self.say(&format!("list chain inet {} untracked", self.names.table))?;
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
