//! Claims on the program's output: every requested item is shown in the right form.

use crate::check::Check;
use crate::claim::{LIB, claim, run};
use crate::topic::Context;

pub fn views(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim(
                "what is asked for is shown; no command hangs on a stopped node",
                "weft",
                &["--test", "views"],
                "screens::",
            ),
            claim(
                "a key file names its kind; certificates are listed and renewed",
                "weft",
                &["--test", "membership"],
                "key_kinds::",
            ),
            claim(
                "nodes send each other the names of their links",
                "weft-engine",
                &["--test", "paths"],
                "link_names::",
            ),
            claim("no quantity is rounded to nothing; tables fit every screen", "weft", &["--bin", "weft"], "table"),
            claim("every example of every document and help text is read", "weft", &["--bin", "weft"], "examples"),
            claim("every short example has its printed effect", "weft", &["--test", "examples"], ""),
            claim("all mistakes of a scenario are reported at once", "weft-scenario", LIB, "read::"),
            claim("a QR code scans on dark and light terminals", "weft", &["--bin", "weft"], "a_code_scans"),
            claim("pictures mark events, and no label leaves its plot", "weft-report", LIB, "panels"),
            claim("every length of a prefix is an address's or less", "weft-config", LIB, "prefix"),
        ],
    )
}
