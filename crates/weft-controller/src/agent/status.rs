//! `weft controller status`.

use super::follow;
use super::membership::Membership;
use super::progress::short;
use crate::cli::StatusArguments;
use crate::network::unix_s;
use serde_json::json;
use weft_config::escape;
use weft_config::files::Directory;

/// Prints the configuration in effect and the last contact, from this machine's files. The controller is not asked.
///
/// # Errors
/// Fails if the machine has not joined.
pub fn status(arguments: &StatusArguments) -> Result<(), String> {
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
    let (progress, now) = (follow::progress(&directory)?, unix_s());
    let age_s = progress.heard_at.map(|heard| now.saturating_sub(heard));
    if arguments.json {
        let controller = membership.endpoint()?.to_string();
        let state = json!({
            "controller": controller, "node": node, "digest": progress.digest, "age_s": age_s, "refused": progress.refused,
        });
        println!("{}", escape::json(&state.to_string()));
        return Ok(());
    }
    println!("node {} of {}", escape::line(node), membership.endpoint()?);
    match &progress.digest {
        Some(digest) => {
            let file = follow::kept(&arguments.dir);
            println!("the configuration with digest {} is in effect: file {}", short(digest), file.display())
        }
        None => println!("no configuration of the controller is in effect"),
    }
    println!("{}", progress.since(now));
    if let Some(refused) = &progress.refused {
        let (digest, why) = (short(&refused.digest), escape::lines(&refused.why));
        println!(
            "this node does not use the controller's configuration with digest {digest}, and keeps its present one: \
             {why}"
        );
    }
    Ok(())
}
