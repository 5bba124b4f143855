//! Runs nft(8) as a child process that owns an nftables table.
//!
//! The kernel removes the table as soon as the child ends. The child ends when its standard input closes, however this
//! process ends.

use std::io::{self, BufRead as _, BufReader, PipeReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Directories of programs that only root uses. They are searched after those in PATH.
const PLACES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// Returns the path of the program `name`, which only root uses, or `None` if this machine does not have it.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(PLACES.map(PathBuf::from));
    places.map(|place| place.join(name)).find(|file| file.is_file())
}

/// Returns the path of the program nft, or `None` if this machine does not have it.
pub fn program() -> Option<PathBuf> {
    find_program("nft")
}

/// Tests whether the kernel accepts these nftables rules. It changes nothing.
///
/// # Errors
/// Fails with nft's message, or if nft is missing.
pub fn check(rules: &str) -> io::Result<()> {
    run(&["-c", "-f", "-"], rules)
}

/// Applies these nftables rules as one transaction. Their tables remain when this process ends.
///
/// # Errors
/// Fails with nft's message, or if nft is missing. Then nothing has changed.
pub fn apply(rules: &str) -> io::Result<()> {
    run(&["-f", "-"], rules)
}

/// Returns true if the kernel has this table of the family `inet`.
///
/// # Errors
/// Fails if nft is missing.
pub fn has_table(name: &str) -> io::Result<bool> {
    let child = command()?.args(["list", "table", "inet", name]).stdout(Stdio::null()).spawn()?;
    Ok(child.wait_with_output()?.status.success())
}

fn run(arguments: &[&str], rules: &str) -> io::Result<()> {
    let mut child = command()?.args(arguments).stdout(Stdio::null()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        writeln!(stdin, "{rules}")?;
    }
    let mut message = String::new();
    child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut message)).transpose()?;
    match child.wait()?.success() {
        true => Ok(()),
        false => Err(io::Error::other(message.lines().next().unwrap_or("nft failed").to_owned())),
    }
}

fn command() -> io::Result<Command> {
    let program =
        program().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "nft is missing: install nftables"))?;
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// Command that prints one known line, by which a session detects the end of earlier output. It needs no table.
const END_COMMAND: &str = "describe meta mark";
/// Beginning of the only line that [`END_COMMAND`] prints.
const END_OF_OUTPUT: &str = "meta expression";

/// The process of nft(8) that this process started, and the nftables table that it owns.
pub struct NftSession {
    child: Child,
    stdin: ChildStdin,
    /// Standard output and standard error of the child, in the order in which it writes them.
    output: BufReader<PipeReader>,
}

impl Drop for NftSession {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl NftSession {
    /// Starts nft and creates the table that the one line `rules` describes.
    ///
    /// # Errors
    /// Fails if nft is missing or rejects the rules.
    pub fn create(rules: &str) -> io::Result<NftSession> {
        let mut command = command()?;
        command.arg("-i");
        let mut session = NftSession::start(command)?;
        session.run(rules)?;
        Ok(session)
    }

    fn start(mut command: Command) -> io::Result<NftSession> {
        let (output, input) = io::pipe()?;
        let mut child = command.stdout(input.try_clone()?).stderr(input).spawn()?;
        let stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(NftSession { child, stdin, output: BufReader::new(output) })
    }

    /// Executes one line of nft commands.
    ///
    /// # Errors
    /// Fails if nft rejects the line.
    pub fn run(&mut self, line: &str) -> io::Result<()> {
        self.write_line(line)?;
        self.confirm()
    }

    fn write_line(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.stdin, "{line}").and_then(|()| self.stdin.flush())
    }

    /// Makes nft print a known line and reads up to it. By then nft has executed or rejected all earlier commands.
    ///
    /// An error is returned only after that line, so that no output of this command remains for the next one.
    fn confirm(&mut self) -> io::Result<()> {
        self.write_line(END_COMMAND)?;
        let mut error = None;
        let mut line = String::new();
        loop {
            line.clear();
            if self.output.read_line(&mut line)? == 0 {
                return Err(error.unwrap_or_else(|| io::Error::other("nft ended")));
            }
            if line.starts_with(END_OF_OUTPUT) {
                return error.map_or(Ok(()), Err);
            }
            if error.is_none() && line.starts_with("Error") {
                error = Some(io::Error::other(format!("nft: {}", line.trim_end())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use weft_units::Rng;

    /// A session with a program that answers as `nft -i` does: a line that begins with `bad` is an error.
    fn session() -> NftSession {
        let script = r#"while read -r line; do case "$line" in
            bad*) printf 'Error: %s\n%s\n^^^\n' "$line" "$line";;
            list*) printf 'table inet t {\n}\n';;
            describe*) echo 'meta expression, datatype mark (packet mark), 32 bits';;
        esac; done"#;
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped());
        NftSession::start(command).unwrap()
    }

    #[test]
    fn each_command_gets_its_own_result_whatever_failed_before() {
        let (mut session, mut rng) = (session(), Rng::new(7));
        for number in 0..200 {
            let is_bad = rng.chance(0.5);
            let mut line = format!("{} {number}", if is_bad { "bad" } else { "add" });
            if rng.chance(0.3) {
                line.push_str("\nlist chain");
            }
            if is_bad && rng.chance(0.3) {
                let _ = write!(line, "\nbad again {number}");
            }
            match session.run(&line) {
                Ok(()) => assert!(!is_bad, "{line}"),
                Err(error) => assert_eq!(error.to_string(), format!("nft: Error: bad {number}")),
            }
        }
    }

    #[test]
    fn a_session_whose_program_ends_fails() {
        let mut command = Command::new("true");
        command.stdin(Stdio::piped());
        assert!(NftSession::start(command).unwrap().run("add table inet t").is_err());
    }
}
