//! Generators of names that a malicious user could choose, for the tests of code that prints names.

use proptest::prelude::*;

/// Generates names with arbitrary characters, many of which act on a terminal.
pub fn name() -> impl Strategy<Value = String> {
    const ACTIVE: &str =
        "\u{1b}[2J\u{7}\u{8}\r\n\t\0\u{7f}\u{85}\u{9b}\u{202e}\u{2066}\u{200b}\u{2028}\u{feff}\u{e0041}\"\\{}=,# éß漢";
    let active = prop::sample::select(ACTIVE.chars().collect::<Vec<_>>());
    let bytes = prop::collection::vec(any::<u8>(), 1..24).prop_map(|b| String::from_utf8_lossy(&b).into_owned());
    let chars = prop::collection::vec(prop_oneof![3 => active, 1 => any::<char>()], 1..24);
    prop_oneof![bytes, chars.prop_map(String::from_iter)]
}

/// Returns the first character, other than a line end, that acts on a terminal.
pub fn acting(text: &str) -> Option<char> {
    const TURNS: &str = "\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2028}\u{2029}\u{2066}\u{2067}\u{2068}\u{2069}";
    text.chars().find(|c| *c != '\n' && (c.is_control() || TURNS.contains(*c)))
}
