//! Text for people: sizes, durations, counts, tables, and names chosen by a guest.

use std::time::Duration;

use unicode_width::UnicodeWidthStr;

/// Bytes in the unit that keeps the number short.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A duration with a readable number of digits.
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", s * 1000.0),
        s if s < 60.0 => format!("{s:.1} s"),
        s => format!("{:.0} min {:02.0} s", (s / 60.0).floor(), (s % 60.0).floor()),
    }
}

/// `1 file`, `2 files`.
pub(super) fn count(number: u64, noun: &str) -> String {
    if number == 1 {
        format!("1 {noun}")
    } else {
        format!("{number} {noun}s")
    }
}

/// Text from a guest on one line, without characters that control the terminal or reverse text.
pub(super) fn plain(text: &str) -> String {
    let steers =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
    }
    plain
}

/// The same, keeping line breaks.
pub(super) fn plain_lines(text: &str) -> String {
    text.lines().map(plain).collect::<Vec<_>>().join("\n")
}

/// The beginning of a text with more than `max` characters.
pub(super) fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Formats rows with aligned columns. Handles wide and zero-width characters.
pub(super) fn table<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width =
        |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or_default();
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.width() + 2));
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stay_short() {
        let sizes = [0, 1023, 1024, 1536, 1_048_575, 1 << 20, 5 << 40].map(size);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 MiB", "5.0 TiB"]);
    }

    #[test]
    fn durations_stay_short() {
        let durations = [0.0123, 2.25, 75.0].map(|s| duration(Duration::from_secs_f64(s)));
        assert_eq!(durations, ["12 ms", "2.2 s", "1 min 15 s"]);
    }

    #[test]
    fn a_name_cannot_steer_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\n\u{202e}é"), "a\\u{1b}[2Jb\\n\\u{202e}é");
        assert_eq!(plain_lines("a\u{9b}2J\nb"), "a\\u{9b}2J\nb");
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["a", "1"], ["long", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), ["a     1", "long"]);
        let rows =
            [["你好", "1"], ["e\u{301}", "2"], ["abcd", "3"]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), ["你好  1", "e\u{301}     2", "abcd  3"]);
    }

    #[test]
    fn only_long_text_is_shortened() {
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("äöüß", 3), "äöü…");
    }
}
