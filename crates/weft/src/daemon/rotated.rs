//! Log files of the programs that the node starts, with bounded length.

use crate::files::Directory;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};

/// Maximum length of a file, in bytes. A file of this length is renamed, and a new one starts.
const MAX_BYTES: u64 = 1 << 20;
/// Maximum length of a line, in bytes. The rest becomes a line of its own.
const MAX_LINE: u64 = 8 << 10;

/// Copies the lines of `from`, edited by `put`, to the file `name` until `from` ends.
///
/// `name.1` is the previous file.
pub fn copy(directory: &Directory, name: &str, from: impl Read, mut put: impl FnMut(&mut Vec<u8>)) {
    let mut reader = BufReader::new(from);
    let (mut file, mut written) = (begin(directory, name).ok(), 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).unwrap_or(0) == 0 {
            return;
        }
        put(&mut line);
        if written + line.len() as u64 > MAX_BYTES {
            (file, written) = (begin(directory, name).ok(), 0);
        }
        // A line that cannot be written is lost: the program must not wait for the disk.
        if file.as_mut().is_some_and(|file| file.write_all(&line).is_ok()) {
            written += line.len() as u64;
        }
    }
}

/// Renames the file to `name.1` and starts a new one.
fn begin(directory: &Directory, name: &str) -> io::Result<File> {
    match directory.rename(name, &format!("{name}.1")) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
        _ => directory.replace_with_empty(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_log_is_two_files_of_bounded_length_and_keeps_the_last_lines() {
        let path = std::env::temp_dir().join(format!("weft-rotated-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        let directory = Directory::open(&path).unwrap();
        let said: String = (0..60_000).map(|number| format!("line {number} {}\n", "x".repeat(40))).collect();
        copy(&directory, "log", said.as_bytes(), |_| {});
        let read = |name: &str| fs::read_to_string(path.join(name)).unwrap();
        let (before, now) = (read("log.1"), read("log"));
        assert!(before.len() as u64 <= MAX_BYTES && now.len() as u64 <= MAX_BYTES);
        assert!(said.ends_with(&(before + &now)) && now.len() > 100_000, "the end of it, whole");
        copy(&directory, "log", &b"of the next run"[..], |_| {});
        assert_eq!((read("log.1"), read("log").as_str()), (now, "of the next run"));
        copy(&directory, "log", vec![b'y'; 3 << 20].as_slice(), |_| {});
        assert!(
            read("log").len() as u64 <= MAX_BYTES && read("log.1").len() as u64 <= MAX_BYTES,
            "without an end of line"
        );
        fs::remove_dir_all(&path).unwrap();
    }
}
