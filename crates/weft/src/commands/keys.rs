//! `weft keygen` and `weft pubkey`.

use crate::keys::PrivateKey;
use crate::outcome::{Failure, Outcome};
use std::path::Path;

/// Makes a private key and prints its public key.
pub fn keygen(out: Option<&Path>) -> Result<Outcome, Failure> {
    let mut random = [0; 32];
    aws_lc_rs::rand::fill(&mut random).map_err(|_| Failure::new("the kernel gave no random numbers"))?;
    let key = PrivateKey::from_random(random);
    match out {
        Some(path) => {
            key.store(path).map_err(|why| Failure::new(why.to_string()))?;
            println!("{}", key.public());
        }
        None => {
            eprintln!("public key: {}", key.public());
            println!("{}", key.encoded());
        }
    }
    Ok(Outcome::Well)
}

/// Prints the public key of the private key in `file`.
pub fn pubkey(file: &Path) -> Result<Outcome, Failure> {
    let key = PrivateKey::load(file).map_err(|why| Failure::new(why.to_string()))?;
    println!("{}", key.public());
    Ok(Outcome::Well)
}
