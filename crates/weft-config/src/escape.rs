//! Escaping of names that others chose, for terminals, log lines and labels of metrics.
//!
//! A certificate, a peer or a client chooses its own name. Characters that move a cursor, end a line or change the
//! direction of text are printed as escapes of Rust literals: `\n`, `\u{1b}`, `\u{202e}`. All other characters stay as
//! they are.

use std::borrow::Cow;

/// Escapes each active character of a text ([`is_active`]), including line ends.
pub fn line(text: &str) -> Cow<'_, str> {
    escape(text, is_active)
}

/// Escapes each active character of a text ([`is_active`]), except line ends.
pub fn lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| c != '\n' && is_active(c))
}

/// Replaces each active character ([`is_active`]) by a replacement character that is one column wide.
///
/// The columns of the text then stay aligned.
pub fn columns(text: &str) -> String {
    text.chars().map(|c| if is_active(c) { '\u{fffd}' } else { c }).collect()
}

/// Returns true if a character does more than show itself.
///
/// These are controls (C0, DEL, C1), characters without width, and characters that change the direction of text
/// (Unicode Standard Annex 9, Unicode Technical Report 36).
pub fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn escape(text: &str, is_active: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_active) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_active(c) {
            // `escape_default` is used only for these three: it would also escape letters that are not ASCII.
            true if matches!(c, '\n' | '\r' | '\t') => escaped.extend(c.escape_default()),
            true => escaped.extend(c.escape_unicode()),
            false => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// Replaces active characters ([`is_active`]) in JSON text by JSON escapes. The values keep their meaning.
pub fn json(text: &str) -> Cow<'_, str> {
    if !text.contains(is_active) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_active(c) {
            true => escaped.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}"))),
            false => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// Escapes the active characters of every string in a JSON value, including those of keys.
pub fn strings(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::String(text) => {
            if let Cow::Owned(escaped) = line(text) {
                *text = escaped;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(strings),
        Value::Object(map) => {
            let entries = std::mem::take(map).into_iter();
            *map = entries
                .map(|(key, mut value)| {
                    strings(&mut value);
                    (line(&key).into_owned(), value)
                })
                .collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod hostile;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn active_characters_are_escaped_and_others_stay() {
        assert_eq!(line("hub é 漢 \"\\"), "hub é 漢 \"\\");
        assert!(matches!(line("hub"), Cow::Borrowed(_)));
        assert_eq!(line("a\u{1b}[2Jb\nc\u{202e}\u{9b}"), "a\\u{1b}[2Jb\\nc\\u{202e}\\u{9b}");
        assert_eq!(lines("a\u{7}\nb"), "a\\u{7}\nb");
        assert_eq!(columns("a\u{7}\u{202e}b"), "a\u{fffd}\u{fffd}b");
    }

    proptest! {
        #[test]
        fn a_name_with_a_character_that_acts_is_refused(name in hostile::name()) {
            let acts = hostile::acting(&name).is_some() || name.contains(char::is_whitespace);
            prop_assert!(!acts || crate::config::peer_name(&name).is_err(), "{name:?}");
        }

        #[test]
        fn nothing_that_acts_comes_out(name in hostile::name()) {
            let escaped = line(&name);
            prop_assert!(hostile::acting(&escaped).is_none() && !escaped.contains('\n'), "{escaped:?}");
            prop_assert_eq!(line(&escaped), escaped.clone());
            prop_assert!(hostile::acting(&lines(&name)).is_none());
            let mut value = serde_json::json!({ name.clone(): [name, 1, { "x": null }] });
            let compact = value.to_string();
            let harmless = json(&compact);
            prop_assert!(hostile::acting(&harmless).is_none(), "{harmless:?}");
            prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&harmless).unwrap(), &value);
            strings(&mut value);
            let text = value.to_string();
            prop_assert!(hostile::acting(&text).is_none(), "{text:?}");
        }
    }
}
