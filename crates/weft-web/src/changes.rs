//! The changes of the node that a user of the page requests.
//!
//! The program `weft` makes them, as it does for a user: it checks the changed configuration, puts it on trial, and
//! saves it when it is confirmed. A change from the page is always on trial first.

use crate::invitation::Invitations;
use crate::snapshot::ask;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use weft_control::{Request, Response};

/// Time after which an unconfirmed change is undone, in the form that `weft set --confirm` accepts.
const TRIAL: &str = "60s";
/// Maximum time that one run of the program `weft` may take.
///
/// `weft` waits up to 32 s for a node that opens devices.
const PATIENCE: Duration = Duration::from_secs(40);
/// Maximum length of a text from `weft` that the page shows, in bytes.
const MAX_TEXT: usize = 8 << 10;

/// A request of the page to change one setting.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct NewSetting {
    /// Table and key of the setting, in the form that `weft set` accepts.
    pub key: String,
    /// New value, in the form that `weft set` accepts; absent: remove the setting.
    #[serde(default)]
    pub value: Option<String>,
}

/// Changes the node for the page, if the user has allowed changes.
pub struct NodeChanges {
    is_allowed: bool,
    weft: PathBuf,
    control: PathBuf,
    config: PathBuf,
    invitations: Invitations,
}

impl NodeChanges {
    /// Makes changes of the node at `control` with the configuration `config`, by the program `weft`.
    pub fn new(is_allowed: bool, weft: PathBuf, control: PathBuf, config: PathBuf) -> NodeChanges {
        NodeChanges { is_allowed, weft, control, config, invitations: Invitations::default() }
    }

    /// True if the page may change the node.
    pub fn are_allowed(&self) -> bool {
        self.is_allowed
    }

    /// Returns the invitations of new nodes that the page has requested.
    pub fn invitations(&self) -> &Invitations {
        &self.invitations
    }

    /// Returns the path of the program `weft` and the directory of the node's configuration, for `weft invite`.
    pub fn program(&self) -> (&Path, &Path) {
        let directory = self.config.parent().filter(|parent| !parent.as_os_str().is_empty());
        (&self.weft, directory.unwrap_or(Path::new(".")))
    }

    /// Puts a change of a setting on trial, by the program `weft`. Returns the text that `weft` prints.
    ///
    /// # Errors
    /// Returns the reason why the change was refused, as `weft` prints it.
    pub async fn set(&self, setting: &NewSetting) -> Result<String, String> {
        let mut command = self.command(if setting.value.is_some() { "set" } else { "unset" });
        command.arg("--control").arg(&self.control).args(["--confirm", TRIAL, "--", &setting.key]);
        command.args(&setting.value);
        run(command).await
    }

    /// Keeps the change that is on trial, and saves it. Returns the text that `weft` prints.
    ///
    /// # Errors
    /// Returns the reason why there is nothing to keep, or why it was not saved.
    pub async fn confirm(&self) -> Result<String, String> {
        let mut command = self.command("confirm");
        command.arg("--control").arg(&self.control);
        run(command).await
    }

    /// Undoes the change that is on trial. Returns a text for the page.
    ///
    /// # Errors
    /// Returns the reason why there is nothing to undo.
    pub async fn undo(&self) -> Result<String, String> {
        let control = self.control.clone();
        let answer = spawn_blocking(move || ask(&control, &Request::Undo)).await.map_err(|why| why.to_string())?;
        match answer? {
            Response::Refused { why } => Err(why),
            _ => Ok("undone".to_owned()),
        }
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.weft);
        command.args(["--color", "never", verb, "--config"]).arg(&self.config);
        command
    }
}

/// Runs `weft` and returns its output, or an error with the reason of its failure.
async fn run(mut command: Command) -> Result<String, String> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = match timeout(PATIENCE, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(why)) => {
            return Err(format!(
                "cannot run the program weft: {why}: install it in the directory of the program weft-web"
            ));
        }
        Err(_) => {
            return Err(format!(
                "`weft` did not make this change within {} s: look at the node's log, then try again",
                PATIENCE.as_secs()
            ));
        }
    };
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    match output.status.success() {
        true => Ok([said, complained].join("\n").trim().to_owned()),
        false if complained.is_empty() => {
            Err(format!("the program weft failed without a message ({}): look at the node's log", output.status))
        }
        false => Err(complained),
    }
}

/// Returns at most `MAX_TEXT` bytes from the beginning of a program's output, without surrounding space.
pub fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(&output[..output.len().min(MAX_TEXT)]).trim().to_owned()
}
