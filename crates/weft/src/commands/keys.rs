//! `weft keygen`, `weft genpsk` and `weft pubkey`.

use crate::entropy;
use crate::keys::{self, KeyKind};
use crate::outcome::{Failure, Outcome};
use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::Path;
use weft_session::Identity;

/// Creates a private key and prints its public key.
pub fn keygen(out: Option<&Path>) -> Result<Outcome, Failure> {
    let seed = entropy::seed().map_err(|why| Failure::new(why.to_string()))?;
    let identity = Identity::from_secret(seed);
    match out {
        Some(path) => {
            let stored = keys::store_key(KeyKind::Node, &identity.secret_to_base64(), path);
            stored.map_err(|why| Failure::new(why.to_string()))?;
            println!("{}", identity.public_key());
        }
        None => {
            eprintln!("public key: {}", identity.public_key());
            print_secret(KeyKind::Node, &identity.secret_to_base64());
        }
    }
    Ok(Outcome::Well)
}

/// Prints a key.
///
/// If standard output is a file, it becomes a key file with a line that states the kind of key. Otherwise the output
/// is the base64 alone, as other programs expect.
fn print_secret(kind: KeyKind, base64: &str) {
    let out = std::io::stdout().as_fd().try_clone_to_owned().map(File::from).and_then(|out| out.metadata());
    match out.is_ok_and(|out| out.is_file()) {
        true => println!("{}", kind.line(base64)),
        false => println!("{base64}"),
    }
}

/// Creates a secret that two nodes share.
pub fn genpsk(out: Option<&Path>) -> Result<Outcome, Failure> {
    let secret = entropy::seed().map_err(|why| Failure::new(why.to_string()))?;
    // A preshared key has the encoding of a private key: 32 bytes in base64.
    let text = Identity::from_secret(secret).secret_to_base64();
    match out {
        Some(path) => keys::store_key(KeyKind::Preshared, &text, path).map_err(|why| Failure::new(why.to_string()))?,
        None => print_secret(KeyKind::Preshared, &text),
    }
    Ok(Outcome::Well)
}

/// Prints the public key of the private key in `file`, or on standard input.
pub fn pubkey(file: Option<&Path>) -> Result<Outcome, Failure> {
    let identity = match file {
        Some(path) if path != Path::new("-") => keys::load(path),
        _ => keys::load_from_stream(std::io::stdin(), Path::new("on standard input")),
    };
    println!("{}", identity.map_err(|why| Failure::new(why.to_string()))?.public_key());
    Ok(Outcome::Well)
}
