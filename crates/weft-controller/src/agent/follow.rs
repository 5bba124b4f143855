//! `weft controller follow`.

use super::join::refusal;
use super::membership::Membership;
use super::progress::{Heard, Next, Progress, RefusedConfiguration, short};
use super::trial::{LocalNode, TrialStart};
use crate::cli::FollowArguments;
use crate::http::{Client, Endpoint, Request};
use crate::network::{EffectiveConfiguration, unix_s};
use crate::secret::{Secret, sha256_hex};
use hyper::{Method, header};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use weft_config::files::Directory;

/// Name of the file with the last configuration that came into effect.
const KEPT: &str = "configuration.toml";
/// Name of the file with a configuration on trial.
const TRIAL: &str = "trial.toml";
/// Name of the file with the state of following: digest of the last configuration in effect, and last contact.
const PROGRESS: &str = "progress.json";
/// Maximum length of each file that this module reads, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Pause between two attempts to reach the controller during a trial.
const PAUSE: Duration = Duration::from_secs(1);
/// Minimum time between two writes of the progress file if only the last contact changed, in seconds.
///
/// Flash memory wears out with each write.
const WRITE_INTERVAL_S: u64 = 600;

/// Keeps the desired configuration from the controller in effect at the node, until the program is ended.
///
/// # Errors
/// Fails if the machine has not joined, or if the directory cannot be used.
pub fn follow(arguments: &FollowArguments) -> Result<(), String> {
    let mut follower = Follower::open(arguments)?;
    loop {
        let done = follower.round()?;
        if arguments.once {
            return done;
        }
        thread::sleep(arguments.every);
    }
}

/// Reads how far the node has followed its controller, from the progress file in `directory`.
///
/// Returns the default if there is no such file.
///
/// # Errors
/// Returns why the file cannot be read.
pub fn progress(directory: &Directory) -> Result<Progress, String> {
    match directory.read_text(PROGRESS, MAX_FILE) {
        Ok(text) => serde_json::from_str(&text).map_err(|why| directory.failed(PROGRESS, &why.into())),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Progress::default()),
        Err(why) => Err(directory.failed(PROGRESS, &why)),
    }
}

/// A node that follows its controller.
struct Follower {
    directory: Directory,
    node: LocalNode,
    client: Client,
    controller: Endpoint,
    path: String,
    secret: Secret,
    runtime: Runtime,
    progress: Progress,
    written: Progress,
    /// Time for which the controller may be out of reach during a trial.
    ///
    /// It is shorter than the trial, so that time is left for `weft confirm`.
    out_of_reach: Duration,
}

impl Follower {
    fn open(arguments: &FollowArguments) -> Result<Follower, String> {
        let not_joined = || {
            format!(
                "this machine has not joined a controller (no membership in the directory {}): run: weft controller \
                 join URL",
                arguments.dir.display()
            )
        };
        let directory = Directory::open(&arguments.dir).map_err(|_| not_joined())?;
        let membership = Membership::read(&directory)?.ok_or_else(not_joined)?;
        let node = membership.node.as_ref().ok_or_else(not_joined)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let progress = progress(&directory)?;
        Ok(Follower {
            node: LocalNode::new(&arguments.config, &arguments.control, arguments.trial),
            out_of_reach: arguments.trial * 3 / 4,
            client: membership.client()?,
            controller: membership.endpoint()?,
            path: format!("/v1/nodes/{node}/effective"),
            secret: membership.secret()?,
            runtime: runtime.map_err(|why| {
                format!(
                    "cannot start the event loop of weft-controller: {why}: check the limits of open files and memory"
                )
            })?,
            written: progress.clone(),
            progress,
            directory,
        })
    }

    /// Asks the controller once for the desired configuration, and tries it if it is new.
    ///
    /// The outer result is an error if a file cannot be written. The inner result is an error with the reason if the
    /// desired configuration is not in effect.
    fn round(&mut self) -> Result<Result<(), String>, String> {
        let heard = self.ask();
        let away = if let Heard::Away(why) = &heard { Err(format!("{}: {why}", self.controller)) } else { Ok(()) };
        let done = match self.progress.after(unix_s(), heard) {
            Next::Wait => away.and_then(|()| self.in_effect()),
            Next::Say(text) => {
                eprintln!("weft-controller: {text}");
                away
            }
            Next::Try { toml, digest } => self.try_out(&toml, digest)?,
        };
        self.write_progress()?;
        Ok(done)
    }

    fn in_effect(&self) -> Result<(), String> {
        self.progress.refused.as_ref().map_or(Ok(()), |refused| Err(refused.why.clone()))
    }

    /// Puts a configuration on trial at the node, and keeps it if the controller answers during the trial.
    ///
    /// The outer result is an error if a file cannot be written. The inner result is an error with the reason if the
    /// configuration is not in effect.
    fn try_out(&mut self, toml: &str, digest: String) -> Result<Result<(), String>, String> {
        self.write(TRIAL, toml.as_bytes())?;
        let start = self.node.try_out(&self.directory.path().join(TRIAL));
        let result = match start.unwrap_or_else(TrialStart::Refused) {
            TrialStart::NoNode => {
                eprintln!(
                    "weft-controller: the configuration with digest {} waits, because no node is running on this \
                     machine: start one with: weft up",
                    short(&digest)
                );
                return Ok(Err("no node is running on this machine: start one with: weft up".to_owned()));
            }
            TrialStart::Refused(why) => Err(why),
            TrialStart::Runs if self.is_in_reach() => self.node.confirm(),
            TrialStart::Runs => {
                self.node.undo();
                Err("the new configuration was undone, because with it the node could not reach the controller: \
                     correct the configuration at the controller"
                    .to_owned())
            }
        };
        match &result {
            Ok(()) => {
                self.write(KEPT, toml.as_bytes())?;
                eprintln!("weft-controller: the configuration with digest {} is in effect", short(&digest));
                (self.progress.digest, self.progress.refused) = (Some(digest), None);
            }
            Err(why) => {
                eprintln!(
                    "weft-controller: this node does not use the controller's configuration with digest {}, and keeps \
                     its present one: {why}",
                    short(&digest)
                );
                self.progress.refused = Some(RefusedConfiguration { digest, why: why.clone(), tried_at: unix_s() });
            }
        }
        Ok(result)
    }

    /// Waits until the controller answers. Returns false if it does not within [`Follower::out_of_reach`].
    fn is_in_reach(&self) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < self.out_of_reach {
            if !matches!(self.ask(), Heard::Away(_)) {
                return true;
            }
            thread::sleep(PAUSE);
        }
        false
    }

    /// Asks the controller for the desired configuration.
    fn ask(&self) -> Heard {
        let mut headers = vec![(header::AUTHORIZATION, format!("Bearer {}", self.secret.text()))];
        headers.extend(self.progress.digest.iter().map(|digest| (header::IF_NONE_MATCH, format!("\"{digest}\""))));
        let request = Request { method: Method::GET, path: &self.path, headers, body: String::new() };
        match self.runtime.block_on(self.client.request(&self.controller, request)) {
            Err(why) => Heard::Away(why.to_string()),
            Ok(answer) if answer.status == 304 => Heard::Unchanged,
            Ok(answer) if answer.status == 200 => match serde_json::from_slice(&answer.body) {
                Ok(EffectiveConfiguration { toml, digest }) if sha256_hex(toml.as_bytes()) == digest => {
                    Heard::Desired { toml, digest }
                }
                _ => Heard::Away("the answer is not from a weft controller: check the controller's URL".to_owned()),
            },
            Ok(answer) => Heard::Away(refusal(answer.status, &answer.body)),
        }
    }

    /// Writes the progress file if the progress has changed.
    ///
    /// If only the time of the last answer has changed, it writes after [`WRITE_INTERVAL_S`].
    fn write_progress(&mut self) -> Result<(), String> {
        let heard = |progress: &Progress| progress.heard_at.unwrap_or(0);
        let is_same = (&self.written.digest, &self.written.refused) == (&self.progress.digest, &self.progress.refused);
        if is_same && heard(&self.progress).saturating_sub(heard(&self.written)) < WRITE_INTERVAL_S {
            return Ok(());
        }
        let text = serde_json::to_vec(&self.progress).map_err(|why| why.to_string())?;
        self.write(PROGRESS, &text)?;
        self.written = self.progress.clone();
        Ok(())
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), String> {
        self.directory.write(name, content).map_err(|why| self.directory.failed(name, &why))
    }
}

/// Returns the path of the last configuration that came into effect.
pub fn kept(directory: &Path) -> std::path::PathBuf {
    directory.join(KEPT)
}
