//! Random numbers from the kernel.

/// Returns 32 random bytes, for keys and seeds.
///
/// # Errors
/// Returns the error of the kernel when `/dev/urandom` cannot be read.
pub fn seed() -> std::io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(bytes)
}
