//! Local time of this machine, by its time zone.

use std::mem::MaybeUninit;

unsafe extern "C" {
    /// Reads the time zone again (POSIX `tzset`).
    fn tzset();
}

/// A point of a week in local time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalMinute {
    /// Day of the week, from 0 for Sunday to 6 for Saturday.
    pub weekday: u8,
    /// Minute of the day, 0 to 1,439.
    pub minute: u16,
}

/// Returns the local time at `unix_s`, in seconds since 1970, or `None` for a time beyond the calendar.
pub fn local_minute(unix_s: u64) -> Option<LocalMinute> {
    let time = libc::time_t::try_from(unix_s).ok()?;
    let mut broken_down = MaybeUninit::<libc::tm>::uninit();
    // SAFETY: `tzset` takes no pointers. The C library guards its own state of the zone.
    unsafe { tzset() };
    // SAFETY: both pointers are valid for the call, and `localtime_r` writes the whole result if it does not fail.
    let is_known = unsafe { !libc::localtime_r(&raw const time, broken_down.as_mut_ptr()).is_null() };
    if !is_known {
        return None;
    }
    // SAFETY: the call succeeded, so it has written the value.
    let local = unsafe { broken_down.assume_init() };
    let minute = u16::try_from(local.tm_hour * 60 + local.tm_min).ok()?;
    Some(LocalMinute { weekday: u8::try_from(local.tm_wday).ok()?, minute })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Environment variable of a test that runs with a time zone of its own.
    const INSIDE: &str = "WEFT_TEST_TIME_ZONE";

    #[test]
    fn local_time_follows_the_changes_of_the_clocks() {
        if std::env::var_os(INSIDE).is_none() {
            let mut again = Command::new(std::env::current_exe().unwrap());
            again.args(["--exact", "local_time::tests::local_time_follows_the_changes_of_the_clocks"]);
            // Central European Time, in the notation of POSIX, which needs no data base of time zones.
            let status = again.env(INSIDE, "1").env("TZ", "CET-1CEST,M3.5.0,M10.5.0/3").status().unwrap();
            return assert!(status.success());
        }
        let at = |unix_s| local_minute(unix_s).map(|time| (time.weekday, time.minute / 60, time.minute % 60));
        // 2026-03-29 00:59:59 and 01:00:00 UTC: clocks go from 01:59 to 03:00. Sunday.
        assert_eq!(at(1_774_745_999), Some((0, 1, 59)));
        assert_eq!(at(1_774_746_000), Some((0, 3, 0)));
        // 2026-10-25 00:30 and 01:30 UTC: the hour from 02:00 comes twice. Sunday.
        assert_eq!(at(1_792_888_200), Some((0, 2, 30)));
        assert_eq!(at(1_792_891_800), Some((0, 2, 30)));
        assert_eq!(at(u64::MAX), None);
    }
}
