//! `weft keygen`, `weft genpsk` and `weft pubkey`.

use crate::outcome::{Failure, Outcome};
use crate::{entropy, keys};
use std::path::Path;
use weft_session::Identity;

/// Makes a private key and prints its public key.
pub fn keygen(out: Option<&Path>) -> Result<Outcome, Failure> {
    let seed = entropy::seed().map_err(|why| Failure::new(format!("the kernel gave no random numbers: {why}")))?;
    let identity = Identity::from_secret(seed);
    match out {
        Some(path) => {
            keys::store(&identity.secret_to_base64(), path).map_err(|why| Failure::new(why.to_string()))?;
            println!("{}", identity.public_key());
        }
        None => {
            eprintln!("public key: {}", identity.public_key());
            println!("{}", identity.secret_to_base64());
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
        Some(path) => keys::store(&text, path).map_err(|why| Failure::new(why.to_string()))?,
        None => println!("{text}"),
    }
    Ok(Outcome::Well)
}

/// Prints the public key of the private key in `file`.
pub fn pubkey(file: &Path) -> Result<Outcome, Failure> {
    let identity = keys::load(file).map_err(|why| Failure::new(why.to_string()))?;
    println!("{}", identity.public_key());
    Ok(Outcome::Well)
}
