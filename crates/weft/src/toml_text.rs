//! Text of the program in TOML.

/// Writes a string of TOML.
pub fn quoted(text: &str) -> String {
    // A string of JSON is one of TOML, except that TOML wants DEL escaped.
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::quoted;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_read_again(text in any::<String>(), control in "[\\x00-\\x20\\x7f\"'\\\\]{0,9}") {
            for text in [text, control] {
                let read: toml::Table = format!("a = {}", quoted(&text)).parse().unwrap();
                prop_assert_eq!(read["a"].as_str(), Some(text.as_str()));
            }
        }
    }
}
