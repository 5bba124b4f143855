//! The invitations of new nodes that the page requests, one at a time.
//!
//! `weft invite` makes the code, waits for the node and signs its certificate. This program passes the code to the page
//! once and stores it nowhere.

use crate::changes::text;
use qrcode::{Color, QrCode};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Maximum time until `weft invite` prints its code.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum length of the code, and of the text of `weft invite`, in bytes.
const MAX_OUTPUT: u64 = 8 << 10;

/// A request of the page for an invitation.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct NewInvitation {
    /// Name of the new node.
    pub name: String,
    /// IP prefixes of the hosts behind the new node.
    #[serde(default)]
    pub prefixes: Vec<String>,
    /// Time for which the code is valid, in minutes.
    pub minutes: u32,
}

/// The code of an invitation, which the page shows once.
#[derive(Serialize, Debug)]
pub struct ShownCode {
    /// The code, as the user enters it at the new node.
    pub code: String,
    /// Number of modules (squares) along each side of the QR code.
    pub modules: usize,
    /// Outline of the dark modules, as the attribute `d` of an SVG path.
    pub outline: String,
}

/// State of an invitation, which the page shows.
#[derive(Clone, Serialize, Debug)]
pub struct InvitationState {
    /// Name of the new node.
    pub name: String,
    /// True while the new node can use the code.
    pub waits: bool,
    /// How the invitation ended, as text for the user; empty while the code can be used.
    pub text: String,
}

/// The invitation whose code can still be used, or how the last invitation ended.
#[derive(Clone, Default)]
pub struct Invitations(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    state: Option<InvitationState>,
    withdraw: Option<oneshot::Sender<()>>,
}

impl Invitations {
    /// Returns the state of the last invitation. `None` if the page has requested none.
    pub fn state(&self) -> Option<InvitationState> {
        self.inner().state.clone()
    }

    /// Makes an invitation by the program `weft invite`, with the configuration in `directory`. Returns its code.
    ///
    /// # Errors
    /// Returns the reason why there is no invitation, as `weft` prints it.
    pub async fn invite(&self, (weft, directory): (&Path, &Path), new: NewInvitation) -> Result<ShownCode, String> {
        self.reserve(&new.name)?;
        let made = start(weft, directory, &new).await;
        let mut inner = self.inner();
        match made {
            Ok((child, code)) => {
                let (withdraw, withdrawn) = oneshot::channel();
                inner.withdraw = Some(withdraw);
                tokio::spawn(self.clone().wait(child, withdrawn, new.name));
                Ok(code)
            }
            Err(why) => {
                inner.state = None;
                Err(why)
            }
        }
    }

    /// Withdraws the invitation whose code can still be used. Returns false if there is none.
    pub fn withdraw(&self) -> bool {
        self.inner().withdraw.take().is_some_and(|withdraw| withdraw.send(()).is_ok())
    }

    /// Reserves the place of the only invitation. Fails if the code of another one can still be used.
    fn reserve(&self, name: &str) -> Result<(), String> {
        let mut inner = self.inner();
        if let Some(state) = inner.state.as_ref().filter(|state| state.waits) {
            return Err(format!(
                "an invitation for node {} is still open: withdraw it before you make another",
                state.name
            ));
        }
        inner.state = Some(InvitationState { name: name.to_owned(), waits: true, text: String::new() });
        Ok(())
    }

    /// Waits until `weft invite` ends or the user withdraws the invitation, and records how it ended.
    async fn wait(self, mut child: Child, withdrawn: oneshot::Receiver<()>, name: String) {
        let mut said = Vec::new();
        let errors = child.stderr.take();
        let ended = async {
            if let Some(errors) = errors {
                let mut first = errors.take(MAX_OUTPUT);
                let _ = first.read_to_end(&mut said).await;
                // The output is read to its end: `weft` would end if nobody read it.
                let _ = tokio::io::copy(&mut first.into_inner(), &mut tokio::io::sink()).await;
            }
            child.wait().await
        };
        let status = tokio::select! {
            status = ended => status.ok(),
            _ = withdrawn => None,
        };
        let text = match status {
            None => "withdrawn".to_owned(),
            // The first line states what to type on the new node. The last line states how the invitation ended.
            Some(_) => text(&said).lines().last().unwrap_or("ended").to_owned(),
        };
        // If the invitation was withdrawn, `weft invite` still runs. Dropping its process kills it.
        drop(child);
        let mut inner = self.inner();
        inner.withdraw = None;
        inner.state = Some(InvitationState { name, waits: false, text });
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts `weft invite` and returns its code.
async fn start(weft: &Path, directory: &Path, new: &NewInvitation) -> Result<(Child, ShownCode), String> {
    let mut command = Command::new(weft);
    command.args(["--color", "never", "invite", "--for", &format!("{}m", new.minutes.max(1))]);
    command.arg("--dir").arg(directory);
    for prefix in &new.prefixes {
        command.arg(format!("--prefix={prefix}"));
    }
    command.args(["--", &new.name]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|why| {
        format!("cannot run the program weft: {why}: install it in the directory of the program weft-web")
    })?;
    let code = match child.stdout.take() {
        Some(output) => timeout(PATIENCE, first_line(output)).await.unwrap_or_default(),
        None => String::new(),
    };
    if code.is_empty() {
        let _ = child.start_kill();
        let output = child.wait_with_output().await.map_err(|why| why.to_string())?;
        return Err(text(&output.stderr));
    }
    let picture = shown(code)?;
    Ok((child, picture))
}

async fn first_line(output: ChildStdout) -> String {
    let mut line = String::new();
    let _ = BufReader::new(output.take(MAX_OUTPUT)).read_line(&mut line).await;
    line.trim().to_owned()
}

/// Returns the code as text and as a QR code.
fn shown(code: String) -> Result<ShownCode, String> {
    let picture = QrCode::new(code.as_bytes())
        .map_err(|why| format!("cannot make a QR code of the invitation: {why}: use weft invite in a terminal"))?;
    let modules = picture.width();
    let dark = picture.to_colors().into_iter().enumerate().filter(|(_, color)| *color == Color::Dark);
    let outline = dark.fold(String::new(), |mut outline, (at, _)| {
        let _ = write!(outline, "M{} {}h1v1h-1z", at % modules, at / modules);
        outline
    });
    Ok(ShownCode { code, modules, outline })
}
