//! `[[link]] max-rate-up-at`: upper limits of a link's rate by the time of day.

use weft_units::{Rate, parse_rate};

/// Minutes of a day.
const DAY: u16 = 1_440;
/// Names of the days, from Sunday.
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// Form of an entry, in messages.
const FORM: &str = "expected hours and a rate, such as \"08:00-18:00 5 Mbit/s\" or \"mon-fri 22:00-06:00 1 Mbit/s\"";

/// A limit of the rate during some hours, in the local time of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapHours {
    /// Days of the week on which the period begins. Bit 0 is Sunday.
    days: u8,
    /// First minute at which the limit applies, in minutes since midnight.
    from: u16,
    /// First minute at which the limit no longer applies, in minutes since midnight.
    ///
    /// If it is not greater than `from`, it lies on the next day.
    to: u16,
    /// Maximum rate during these hours.
    pub rate: Rate,
}

impl CapHours {
    /// True if the limit applies at `minute` (since midnight) of the day `weekday`; 0 is Sunday.
    ///
    /// When daylight saving time begins, the skipped hour does not occur. When it ends, the limit applies in the
    /// repeated hour both times.
    pub fn counts_at(&self, weekday: u8, minute: u16) -> bool {
        let begins_on = |day: u8| self.days & 1 << (day % 7) != 0;
        if self.from < self.to {
            return begins_on(weekday) && (self.from..self.to).contains(&minute);
        }
        begins_on(weekday) && minute >= self.from || begins_on(weekday + 6) && minute < self.to
    }
}

/// Parses an entry of `max-rate-up-at`.
///
/// # Errors
/// Returns the expected form.
pub fn parse(text: &str) -> Result<CapHours, String> {
    let form = || FORM.to_owned();
    let (first, rest) = text.trim().split_once(' ').ok_or_else(form)?;
    let (days, hours, rate) = if first.contains(':') {
        (0x7f, first, rest)
    } else {
        let (hours, rate) = rest.trim().split_once(' ').ok_or_else(form)?;
        (days(first)?, hours, rate)
    };
    let (from, to) = hours.split_once('-').ok_or_else(form)?;
    let (from, to) = (minute(from)?, minute(to)?);
    if from == DAY || from == to {
        return Err(
            "the hours of a rate cap begin and end at the same time: for a whole day write 00:00-24:00".to_owned()
        );
    }
    let rate = parse_rate(rate.trim()).map_err(|why| why.to_string())?;
    Ok(CapHours { days, from, to, rate })
}

fn days(text: &str) -> Result<u8, String> {
    let day = |text: &str| {
        let number = DAYS.iter().position(|name| *name == text);
        number.ok_or_else(|| format!("`{text}` is no day of the week: write one of {}", DAYS.join(", ")))
    };
    let mut days = 0;
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (mut at, last) = (day(first)?, day(last)?);
        days |= 1 << at;
        while at != last {
            at = (at + 1) % DAYS.len();
            days |= 1 << at;
        }
    }
    Ok(days)
}

fn minute(text: &str) -> Result<u16, String> {
    let wrong = || format!("`{text}` is no time of day: write HH:MM from 00:00 to 24:00");
    let (hour, minute) = text.split_once(':').ok_or_else(wrong)?;
    let digits = |text: &str| (text.len() == 2).then(|| text.parse::<u16>().ok()).flatten().ok_or_else(wrong);
    let (hour, minute) = (digits(hour)?, digits(minute)?);
    let of_day = hour * 60 + minute;
    if minute < 60 && of_day <= DAY { Ok(of_day) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hours_count_on_their_days() {
        let night = parse("fri,sun 22:00-06:00 1 Mbit/s").unwrap();
        assert_eq!(night.rate, Rate::from_bps(1_000_000));
        let at = |day, hour: u16, minute: u16| night.counts_at(day, hour * 60 + minute);
        assert!(at(5, 22, 0) && at(6, 5, 59) && at(0, 23, 0) && at(1, 0, 0), "the night after Friday and Sunday");
        assert!(!at(5, 21, 59) && !at(6, 6, 0) && !at(5, 3, 0) && !at(6, 23, 0));
        let week = parse("mon-fri 08:00-18:00 5 Mbit/s").unwrap();
        assert!(week.counts_at(1, 480) && !week.counts_at(1, 1_080) && !week.counts_at(6, 600));
        let over = parse("sat-mon 00:00-24:00 5 Mbit/s").unwrap();
        assert_eq!((0..7).filter(|day| over.counts_at(*day, 1_439)).collect::<Vec<_>>(), [0, 1, 6]);
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "",
            "5 Mbit/s",
            "08:00-18:00",
            "08:00 5 Mbit/s",
            "8:00-18:00 5 Mbit/s",
            "08:60-18:00 5 Mbit/s",
            "08:00-24:01 5 Mbit/s",
            "24:00-08:00 5 Mbit/s",
            "08:00-08:00 5 Mbit/s",
            "mo 08:00-18:00 5 Mbit/s",
            "mon- 08:00-18:00 5 Mbit/s",
            "08:00-18:00 fast",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_day_has_as_many_minutes_as_the_hours_say(from in 0u16..1_440, len in 1u16..1_440, first in 0usize..7) {
            let to = (from + len) % 1_440;
            let clock = |minute: u16| format!("{:02}:{:02}", minute / 60, minute % 60);
            let cap = parse(&format!("{} {}-{} 1 Mbit/s", DAYS[first], clock(from), clock(to))).unwrap();
            let counted: Vec<(u8, u16)> =
                (0..7u8).flat_map(|day| (0..1_440).map(move |minute| (day, minute))).filter(|(day, minute)| cap.counts_at(*day, *minute)).collect();
            prop_assert_eq!(counted.len(), usize::from(len));
            prop_assert!(counted.contains(&(first as u8, from)));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}") {
            let _ = parse(&text);
        }
    }
}
