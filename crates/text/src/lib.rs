//! Text from strangers, made safe to show.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

/// One line of at most `chars` characters: control characters, and those that turn the direction of
/// text around, become spaces.
#[must_use]
pub fn line_of(text: &str, chars: usize) -> String {
    let mut line = String::with_capacity(text.len().min(4 * chars));
    let mut was_space = true;
    let mut count = 0;
    for c in text.chars() {
        let c = if is_plain(c) { c } else { ' ' };
        if c.is_whitespace() && was_space {
            continue;
        }
        if count == chars {
            line.push('…');
            return line;
        }
        was_space = c.is_whitespace();
        line.push(if was_space { ' ' } else { c });
        count += 1;
    }
    line.truncate(line.trim_end().len());
    line
}

/// The same over several lines.
#[must_use]
pub fn lines_of(text: &str, chars: usize) -> String {
    let plain = |c: char| {
        if c == '\n' || c == '\t' || is_plain(c) {
            c
        } else {
            ' '
        }
    };
    let lines: String = text.replace("\r\n", "\n").chars().map(plain).collect();
    cut(lines.trim().to_owned(), chars)
}

/// The beginning of a text that is longer than so many characters.
#[must_use]
pub fn cut(mut text: String, chars: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(chars) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Number of bytes at the end that begin a UTF-8 character whose rest is missing.
#[must_use]
pub fn unfinished(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3);
    let last = bytes[tail..].utf8_chunks().last().map_or(&b""[..], |chunk| chunk.invalid());
    // Bytes that are no character, whatever follows, are not awaited.
    let is_cut = str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
    if is_cut { last.len() } else { 0 }
}

fn is_plain(c: char) -> bool {
    let turns = matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    // Letters that no font shows, of which hidden text is made.
    let is_tag = matches!(c, '\u{e0000}'..='\u{e0fff}');
    !c.is_control() && !turns && !is_tag && c != '\u{2028}' && c != '\u{2029}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_and_shows_all_that_it_says() {
        assert_eq!(line_of("  a\n\tb \u{1b}[31m c\u{202e}d\u{e0041}  ", 80), "a b [31m c d");
        assert_eq!(line_of("abcdef", 3), "abc…");
        assert_eq!(line_of("é\u{2028}é", 3), "é é");
        assert_eq!(lines_of("a\r\n  b\u{7}\n", 80), "a\n  b");
    }

    #[test]
    fn a_character_is_awaited_while_it_can_become_one() {
        for whole in ["a", "é", "€", "😀"] {
            let bytes = ["x".as_bytes(), whole.as_bytes()].concat();
            for length in 1..bytes.len() {
                assert_eq!(unfinished(&bytes[..length]), length - 1, "{whole}");
            }
            assert_eq!(unfinished(&bytes), 0, "{whole}");
        }
        for never in [&b""[..], b"\x80\x80\x80\x80", b"\xff", b"\xe2\x41", b"\xed\xa0", b"\xf5\x80"]
        {
            assert_eq!(unfinished(never), 0, "{never:?}");
        }
    }
}
