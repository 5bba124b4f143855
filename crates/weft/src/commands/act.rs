//! Commands that change or probe a running node.
//!
//! They are `down`, `reload`, `peer reset`, `weights set`, `vpns set`, `revoke` and `ping`.

use crate::cli::{Control, Reading};
use crate::control::{ask, unexpected};
use crate::daemon::machine::changes::lift_kill_switch;
use crate::files;
use crate::keys;
use crate::outcome::json;
use crate::outcome::{Failure, Outcome};
use crate::table::{Table, millis};
use std::io;
use std::path::Path;
use std::time::Duration;
use weft_control::{Pong, Request, Response, VpnSetting};
use weft_units::parse_rate;

/// Maximum time to wait until the node has ended. If it still runs then, the command fails.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval between two checks whether the node has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Stops the node, and waits until it has ended.
pub fn down(control: &Control) -> Result<Outcome, Failure> {
    match ask(&control.control, &Request::Down) {
        Err(failure) if failure.outcome() == Outcome::NoDaemon => return lift_left(&control.control).ok_or(failure)?,
        asked => asked?,
    };
    for _ in 0..PATIENCE.as_millis() / LOOK_INTERVAL.as_millis() {
        if files::connect(&control.control).is_err_and(|why| why.kind() != io::ErrorKind::WouldBlock) {
            return Ok(Outcome::Well);
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    Err(Failure::new("the node is still running, 5 s after the request to end: see its log, or end its process"))
}

/// Lifts the kill switch that an ended node has left. Returns `None` if there is none.
fn lift_left(control: &Path) -> Option<Result<Outcome, Failure>> {
    match lift_kill_switch(control) {
        Ok(false) => None,
        Ok(true) => {
            println!("no node is running; its kill switch is lifted");
            Some(Ok(Outcome::Well))
        }
        Err(why) if why.kind() == io::ErrorKind::NotFound => None,
        Err(why) => {
            Some(Err(Failure::new(format!("cannot lift the kill switch of an ended node: {why}: run this as root"))))
        }
    }
}

/// Makes the node read its configuration again, and waits for the result.
pub fn reload(control: &Control) -> Result<Outcome, Failure> {
    ask(&control.control, &Request::Reload)?;
    Ok(Outcome::Well)
}

/// Makes the node forget the stamp of the last handshake that it accepted from a peer.
pub fn reset_peer(name: &str, control: &Control) -> Result<Outcome, Failure> {
    ask(&control.control, &Request::ResetPeer { peer: name.to_owned() })?;
    Ok(Outcome::Well)
}

/// Sets the weights of links: each of `words` is `LINK=WEIGHT`, or the only one is `measured`.
pub fn set_weights(words: &[String], control: &Control) -> Result<Outcome, Failure> {
    let weights = match words {
        [word] if word == "measured" => None,
        words => Some(words.iter().map(|word| weight(word)).collect::<Result<_, _>>()?),
    };
    if let Response::DoneBut { note } = ask(&control.control, &Request::SetWeights { weights })? {
        eprintln!("weft: {note}");
    }
    Ok(Outcome::Well)
}

fn weight(word: &str) -> Result<(String, u32), Failure> {
    let pair = word.split_once('=').and_then(|(link, weight)| Some((link.to_owned(), weight.parse().ok()?)));
    let wrong = || Failure::with(Outcome::Usage, format!("`{word}` is not LINK=WEIGHT, for example eth0=50"));
    pair.filter(|(link, _)| !link.is_empty()).ok_or_else(wrong)
}

/// Changes a VPN by settings of the form `weight=N`, `assured=RATE` or `leased=RATE`.
pub fn set_vpn(vpn: &str, settings: &[String], control: &Control) -> Result<Outcome, Failure> {
    let mut change = VpnSetting::default();
    for setting in settings {
        let wrong = |why: &str| Failure::with(Outcome::Usage, format!("`{setting}`: {why}"));
        let rate = |text: &str| match text {
            "none" => Ok(0),
            text => parse_rate(text).map(|rate| rate.bps()).map_err(|why| wrong(&why.to_string())),
        };
        match setting.split_once('=') {
            Some(("weight", weight)) => {
                let weight = weight.parse().ok().filter(|weight| *weight > 0);
                change.weight = Some(weight.ok_or_else(|| wrong("expected weight=N, N a whole number above 0"))?);
            }
            Some(("assured", text)) => change.assured_bps = Some(rate(text)?),
            Some(("leased", text)) => change.leased_bps = Some(rate(text)?),
            _ => return Err(wrong("expected weight=N, assured=RATE or leased=RATE")),
        }
    }
    if change.assured_bps.is_some_and(|bps| bps > 0) && change.leased_bps.is_some_and(|bps| bps > 0) {
        return Err(Failure::with(Outcome::Usage, "a VPN is assured or leased, not both: give one of the two rates"));
    }
    ask(&control.control, &Request::SetVpn { vpn: vpn.to_owned(), change })?;
    Ok(Outcome::Well)
}

/// Sends the revocation in `file` to the node, which applies it.
pub fn revoke(file: &Path, control: &Control) -> Result<Outcome, Failure> {
    let revocation = keys::load_revocation(file).map_err(|why| Failure::new(why.to_string()))?;
    ask(&control.control, &Request::Revoke { revocation: revocation.to_string() })?;
    Ok(Outcome::Well)
}

/// Pings a peer through each path.
pub fn ping(peer: &str, reading: &Reading) -> Result<Outcome, Failure> {
    loop {
        let outcome = ping_once(peer, reading)?;
        if !reading.watch {
            return Ok(outcome);
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn ping_once(peer: &str, reading: &Reading) -> Result<Outcome, Failure> {
    let response = ask(&reading.control.control, &Request::Ping { peer: peer.to_owned() })?;
    let Response::Pongs { paths } = &response else {
        return Err(unexpected(&response));
    };
    print!("{}", if reading.json { json(&response)? } else { table(paths) });
    Ok(match paths.iter().filter(|path| path.rtt_us.is_some()).count() {
        0 => Outcome::Failed,
        n if n < paths.len() => Outcome::Degraded,
        _ => Outcome::Well,
    })
}

fn table(paths: &[Pong]) -> String {
    let mut table = Table::new(&["PATH", ">RTT"]);
    for path in paths {
        let rtt = path.rtt_us.map_or_else(|| "no answer".to_owned(), millis);
        table.row([format!("{} {} → {}", path.path, path.link, path.remote), rtt]);
    }
    table.to_string()
}
