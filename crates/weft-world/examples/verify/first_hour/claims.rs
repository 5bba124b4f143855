//! What the topic claims, and the tests that show it.

use crate::check::Check;
use crate::claim::{claim, run};
use crate::topic::Context;

pub fn state(context: &Context) -> Vec<Check> {
    run(context, &[claim("lost and damaged state costs no session", "weft", &["--test", "stays_up"], "")])
}
