//! The kernel's random numbers.

/// 32 random bytes, for keys and seeds.
///
/// # Errors
/// When the kernel gives none.
pub fn seed() -> std::io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(bytes)
}
