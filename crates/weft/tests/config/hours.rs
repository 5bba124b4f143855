//! `[[link]] max-rate-up-at`: limits by the time of day.

use crate::{check, refused, with_peer};

#[test]
fn limits_by_the_time_of_day_have_a_form() {
    let link = |limits: &str| with_peer(&format!("[[link]]\nname = \"lo\"\nmax-rate-up-at = {limits}"));
    for good in ["\"08:00-18:00 5 Mbit/s\"", "[\"mon-fri,sun 22:00-06:00 1 Mbit/s\", \"00:00-24:00 9 Mbit/s\"]", "[]"] {
        let (status, message) = check(&link(good));
        assert_eq!((status, message.as_str()), (0, ""), "{good}");
    }
    for (bad, expected) in [
        ("\"5 Mbit/s\"", "weft.toml:8:18: error: `max-rate-up-at` cannot be `5 Mbit/s`: expected hours and a rate"),
        ("[\"08:00-18:00 fast\"]", "weft.toml:8:19: error: `max-rate-up-at` cannot be `08:00-18:00 fast`"),
        ("[\"08:00-25:00 5 Mbit/s\"]", "`25:00` is no time of day: write HH:MM from 00:00 to 24:00"),
        (
            "[\"08:00-08:00 5 Mbit/s\"]",
            "the hours of a rate cap begin and end at the same time: for a whole day write 00:00-24:00",
        ),
        ("[\"monday 08:00-18:00 5 Mbit/s\"]", "`monday` is no day of the week: write one of sun, mon, tue"),
        ("8", "weft.toml:8:18: error: `max-rate-up-at` must be an array of strings"),
    ] {
        refused(&link(bad), &[expected]);
    }
}
