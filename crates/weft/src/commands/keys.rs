//! `weft keygen`, `weft genpsk` and `weft pubkey`.

use crate::entropy;
use crate::keys::{self, Kind};
use crate::outcome::{Failure, Outcome};
use std::path::Path;
use weft_session::Identity;

/// Makes a private key and prints its public key.
pub fn keygen(out: Option<&Path>) -> Result<Outcome, Failure> {
    let seed = entropy::seed().map_err(|why| Failure::new(format!("the kernel gave no random numbers: {why}")))?;
    let identity = Identity::from_secret(seed);
    match out {
        Some(path) => {
            let stored = keys::store_key(Kind::Node, &identity.secret_to_base64(), path);
            stored.map_err(|why| Failure::new(why.to_string()))?;
            println!("{}", identity.public_key());
        }
        None => {
            eprintln!("public key: {}", identity.public_key());
            println!("{}", Kind::Node.line(&identity.secret_to_base64()));
        }
    }
    Ok(Outcome::Well)
}

/// Makes a secret for two nodes to share.
pub fn genpsk(out: Option<&Path>) -> Result<Outcome, Failure> {
    let secret = entropy::seed().map_err(|why| Failure::new(format!("the kernel gave no random numbers: {why}")))?;
    // Any 32 secret bytes are written as a private key is.
    let text = Identity::from_secret(secret).secret_to_base64();
    match out {
        Some(path) => keys::store_key(Kind::Preshared, &text, path).map_err(|why| Failure::new(why.to_string()))?,
        None => println!("{}", Kind::Preshared.line(&text)),
    }
    Ok(Outcome::Well)
}

/// Prints the public key of the private key in `file`, or of the one on standard input.
pub fn pubkey(file: Option<&Path>) -> Result<Outcome, Failure> {
    let identity = match file {
        Some(path) if path != Path::new("-") => keys::load(path),
        _ => keys::load_from_stream(std::io::stdin(), Path::new("on standard input")),
    };
    println!("{}", identity.map_err(|why| Failure::new(why.to_string()))?.public_key());
    Ok(Outcome::Well)
}
