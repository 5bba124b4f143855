//! Parsing of `dscp`: code points, by number or by the names that routers use.

use super::diagnose::{Report, did_you_mean};
use toml::Spanned;
use toml::de::DeValue;
use weft_engine::Dscp;

/// Names of code points.
///
/// Sources: class selectors (RFC 2474), assured and expedited forwarding (RFC 2597, 3246), VOICE-ADMIT (RFC 5865),
/// lower effort (RFC 8622).
const NAMES: [(&str, u8); 23] = [
    ("cs0", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("va", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

/// Returns the name of a code point, or its number if it has no name.
pub fn name(code_point: u8) -> String {
    let known = NAMES.iter().find(|(_, value)| *value == code_point);
    known.map_or_else(|| code_point.to_string(), |(name, _)| (*name).to_owned())
}

/// Parses a code point from an argument: a name or a number.
///
/// # Errors
/// Returns a message for the user.
pub fn parse(text: &str) -> Result<u8, String> {
    let named = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, value)| *value);
    let number = || text.parse().ok().filter(|number| *number < 64);
    named
        .or_else(number)
        .ok_or_else(|| format!("`{text}` is not a DSCP: write a name such as af21, or a number from 0 to 63"))
}

/// Parses a code point. Reports "copy", which stands for the DSCP of the inner packet, as an error.
pub(super) fn read_code_point(value: &Spanned<DeValue<'_>>, report: &Report) -> Option<u8> {
    match read(value, report)? {
        Dscp::Fixed(code_point) => Some(code_point),
        Dscp::Copy => {
            let help = "for example dscp = \"af21\"".to_owned();
            report.error(value.span(), "`copy` is not a code point", Some(help));
            None
        }
    }
}

/// Parses a name or a number up to 63, or "copy" for the DSCP of the inner packet.
pub(super) fn read(value: &Spanned<DeValue<'_>>, report: &Report) -> Option<Dscp> {
    if let Some(text) = value.get_ref().as_str() {
        let word = text.to_lowercase();
        if word == "copy" {
            return Some(Dscp::Copy);
        }
        if let Some((_, code_point)) = NAMES.iter().find(|(name, _)| *name == word) {
            return Some(Dscp::Fixed(*code_point));
        }
    }
    let number = value.get_ref().as_integer().and_then(|n| i64::from_str_radix(n.as_str(), n.radix()).ok());
    if let Some(code_point) = number.filter(|n| (0..64).contains(n)) {
        return Some(Dscp::Fixed(code_point as u8));
    }
    let known = NAMES.iter().map(|(name, _)| *name).chain(["copy"]);
    let help = value.get_ref().as_str().and_then(|text| did_you_mean(text, known));
    let help = help.unwrap_or_else(|| "for example dscp = \"af21\"".to_owned());
    report.error(value.span(), "`dscp` is \"copy\", a name such as \"af21\", or a number from 0 to 63", Some(help));
    None
}
