//! Messages for refused commands.

use crate::config::unknown_name;
use weft_control::Response;
use weft_engine::{CommandError, DrillError};

/// Returns the response to a command that the engine refused.
pub fn refused(why: CommandError) -> Response {
    let why = match why {
        CommandError::UnknownPeer(known) => format!("there is no such peer: the peers are {}", known.join(", ")),
        CommandError::UnknownLink(name, known) => unknown_name("link", &name, known.iter().map(String::as_str)),
        CommandError::UnknownVpn(name, known) => unknown_name("VPN", &name, known.iter().map(String::as_str)),
        CommandError::NoRoute => {
            "no prefix of a peer contains this destination; see: weft status, weft vpns".to_owned()
        }
        CommandError::Drill(why @ DrillError::NoOtherPath(_)) => format!("{why}: use --force to run the drill anyway"),
        CommandError::Drill(why) => why.to_string(),
        CommandError::Vpn(why) => why.to_string(),
        CommandError::NoWeight => {
            "weight 0 on all links to a peer would stop its traffic: set the weight of a link above 0".to_owned()
        }
        CommandError::NotEstablished => {
            "there is no session with the peer now: weft doctor --peer NAME shows why".to_owned()
        }
    };
    Response::Refused { why }
}
