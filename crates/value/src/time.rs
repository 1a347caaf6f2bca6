//! Dates and times, read and written as ISO 8601.

use std::fmt;

/// A `datetime.date`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Date {
    /// Year, from 1 to 9999.
    pub year: u16,
    /// Month, from 1.
    pub month: u8,
    /// Day, from 1.
    pub day: u8,
}

/// A `datetime.time`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Time {
    /// Hour, from 0 to 23.
    pub hour: u8,
    /// Minute, from 0 to 59.
    pub minute: u8,
    /// Second, from 0 to 59.
    pub second: u8,
    /// Microsecond, from 0 to 999,999.
    pub microsecond: u32,
    /// Whether this is the second of two equal local times, when clocks are set back.
    pub fold: bool,
    /// The time zone; `None` for a naive time.
    pub zone: Option<Zone>,
}

/// The time zone of a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Zone {
    /// Seconds east of UTC, less than a day; `None` if only the name is known.
    pub offset: Option<i32>,
    /// Name of the time zone, such as `Europe/Berlin`.
    pub name: Option<String>,
}

/// A `datetime.datetime`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DateTime {
    /// The day.
    pub date: Date,
    /// The time of that day.
    pub time: Time,
}

/// A `datetime.timedelta`, normalised as Python does it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timedelta {
    /// Days, from -999,999,999 to 999,999,999.
    pub days: i32,
    /// Seconds, from 0 to 86,399.
    pub seconds: u32,
    /// Microseconds, from 0 to 999,999.
    pub microseconds: u32,
}

impl Date {
    pub(super) fn parse(text: &str) -> Option<Self> {
        whole(text, Self::take)
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        let year = digits(rest, 4)?;
        symbol(rest, b'-')?;
        let month = digits(rest, 2)?;
        symbol(rest, b'-')?;
        let day = digits(rest, 2)?;
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => 0,
        };
        (year >= 1 && day >= 1 && day <= days).then_some(Self {
            year: year as u16,
            month: month as u8,
            day: day as u8,
        })
    }
}

impl Time {
    pub(super) fn parse(text: &str) -> Option<Self> {
        whole(text, Self::take)
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        let hour = digits(rest, 2)?;
        symbol(rest, b':')?;
        let minute = digits(rest, 2)?;
        symbol(rest, b':')?;
        let second = digits(rest, 2)?;
        let microsecond = match symbol(rest, b'.') {
            Some(()) => digits(rest, 6)?,
            None => 0,
        };
        let zone = match rest.first() {
            Some(b'+' | b'-') => Some(Zone {
                offset: Some(offset(rest)?),
                name: None,
            }),
            _ => None,
        };
        (hour < 24 && minute < 60 && second < 60).then_some(Self {
            hour: hour as u8,
            minute: minute as u8,
            second: second as u8,
            microsecond,
            fold: false,
            zone,
        })
    }
}

impl DateTime {
    pub(super) fn parse(text: &str) -> Option<Self> {
        whole(text, |rest| {
            let date = Date::take(rest)?;
            symbol(rest, b'T')?;
            let time = Time::take(rest)?;
            Some(Self { date, time })
        })
    }
}

impl Timedelta {
    pub(super) fn of(days: i64, seconds: i64, microseconds: i64) -> Option<Self> {
        let is_one = (-999_999_999..=999_999_999).contains(&days)
            && (0..86_400).contains(&seconds)
            && (0..1_000_000).contains(&microseconds);
        is_one.then_some(Self {
            days: days as i32,
            seconds: seconds as u32,
            microseconds: microseconds as u32,
        })
    }
}

/// Returns the result of `take` if it consumes the whole text.
fn whole<T>(text: &str, take: impl FnOnce(&mut &[u8]) -> Option<T>) -> Option<T> {
    let mut rest = text.as_bytes();
    let found = take(&mut rest)?;
    rest.is_empty().then_some(found)
}

fn digits(rest: &mut &[u8], count: usize) -> Option<u32> {
    let (digits, after) = rest.split_at_checked(count)?;
    *rest = after;
    digits
        .iter()
        .try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u32::from(byte - b'0')))
}

fn symbol(rest: &mut &[u8], symbol: u8) -> Option<()> {
    *rest = rest.strip_prefix(&[symbol])?;
    Some(())
}

fn offset(rest: &mut &[u8]) -> Option<i32> {
    let sign = if symbol(rest, b'-').is_some() { -1 } else { 1 };
    if sign == 1 {
        symbol(rest, b'+')?;
    }
    let hours = digits(rest, 2)?;
    symbol(rest, b':')?;
    let minutes = digits(rest, 2)?;
    let seconds = match symbol(rest, b':') {
        Some(()) => digits(rest, 2)?,
        None => 0,
    };
    let is_one = hours < 24 && minutes < 60 && seconds < 60;
    is_one.then_some(sign * (hours * 3600 + minutes * 60 + seconds).cast_signed())
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}:{:02}", self.hour, self.minute, self.second)?;
        if self.microsecond != 0 {
            write!(f, ".{:06}", self.microsecond)?;
        }
        let Some(offset) = self.zone.as_ref().and_then(|zone| zone.offset) else {
            return Ok(());
        };
        let (sign, of) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs());
        write!(f, "{sign}{:02}:{:02}", of / 3600, of / 60 % 60)?;
        if of.is_multiple_of(60) {
            return Ok(());
        }
        write!(f, ":{:02}", of % 60)
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}T{}", self.date, self.time)
    }
}
