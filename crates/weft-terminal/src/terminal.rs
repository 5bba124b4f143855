//! Properties of a terminal: its size, and whether output to it is coloured.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::fd::{AsFd, AsRawFd as _};

/// Returns the columns and rows of a terminal; `None` if the stream is no terminal or its size is unknown.
#[expect(unsafe_code, reason = "the size of a terminal takes one ioctl")]
pub fn size(stream: impl AsFd) -> Option<(usize, usize)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptor is open while it is borrowed. The kernel writes one `winsize`, to `size`.
    let result = unsafe { libc::ioctl(stream.as_fd().as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    let is_known = result == 0 && size.ws_col > 0 && size.ws_row > 0;
    is_known.then(|| (usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// Returns true if text for this stream should have colours.
///
/// The environment decides as no-color.org and bixense.com/clicolors describe it.
pub fn wants_color(stream: &impl IsTerminal) -> bool {
    decide(|name| std::env::var_os(name), stream.is_terminal())
}

fn decide(variable: impl Fn(&str) -> Option<OsString>, is_terminal: bool) -> bool {
    let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
    if is_set("NO_COLOR") {
        return false;
    }
    if is_set("CLICOLOR_FORCE") {
        return true;
    }
    let shows_colors = || variable("TERM").is_some_and(|terminal| terminal != "dumb") || variable("CI").is_some();
    match variable("CLICOLOR") {
        Some(choice) => choice != "0" && is_terminal,
        None => is_terminal && shows_colors(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_decides_about_colours() {
        let on = |variables: &[(&str, &str)], is_terminal| {
            decide(|name| variables.iter().find(|(of, _)| *of == name).map(|(_, value)| value.into()), is_terminal)
        };
        let terminal = ("TERM", "xterm");
        for variables in [
            &[terminal][..],
            &[terminal, ("NO_COLOR", "")],
            &[terminal, ("CLICOLOR_FORCE", "")],
            &[("TERM", "dumb"), ("CLICOLOR", "1")],
            &[("CI", "")],
        ] {
            assert!(on(variables, true) && !on(variables, false), "{variables:?}");
        }
        for variables in [&[][..], &[("TERM", "dumb")], &[terminal, ("NO_COLOR", "1")], &[terminal, ("CLICOLOR", "0")]]
        {
            assert!(!on(variables, true), "{variables:?}");
        }
        assert!(on(&[("CLICOLOR_FORCE", "1"), ("CLICOLOR", "0")], false));
        assert!(!on(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], true));
    }

    #[test]
    fn a_file_has_no_size() {
        assert_eq!(size(std::fs::File::open("/dev/null").unwrap()), None);
    }
}
