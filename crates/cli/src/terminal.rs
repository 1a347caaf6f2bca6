//! Filter for guest output on a terminal.
//!
//! Escape sequences can rename windows, set the clipboard, or send input as if typed by the user.
//! Only colours and clearing the line are passed on. Output to a file or a pipe is not filtered.

use anstyle_parse::{Params, Parser, Perform};

/// Removes escape sequences from a stream, however it is split into chunks.
#[derive(Debug, Default)]
pub(super) struct Filter {
    parser: Parser,
    shown: Shown,
}

/// Filtered output of the parser.
#[derive(Debug, Default)]
struct Shown(String);

impl Filter {
    /// The printable part of `bytes`. Invalid UTF-8 becomes the replacement character.
    pub(super) fn pass(&mut self, bytes: &[u8]) -> String {
        for &byte in bytes {
            if byte == b'\n' {
                // An unfinished sequence hides its line at most.
                self.parser = Parser::default();
            }
            self.parser.advance(&mut self.shown, byte);
        }
        std::mem::take(&mut self.shown.0)
    }
}

/// Everything else is dropped: strings for the terminal, and its settings.
impl Perform for Shown {
    fn print(&mut self, letter: char) {
        if !letter.is_control() {
            self.0.push(letter);
        }
    }

    /// Control characters: only those that move the cursor within its line.
    fn execute(&mut self, byte: u8) {
        if matches!(byte, b'\n' | b'\r' | b'\t' | 0x08) {
            self.0.push(char::from(byte));
        }
    }

    /// Control sequences: colours, and clearing the line.
    fn csi_dispatch(&mut self, params: &Params, between: &[u8], ignored: bool, last: u8) {
        if ignored || !between.is_empty() || !matches!(last, b'm' | b'K') {
            return;
        }
        let join = |numbers: &[u16]| {
            let numbers: Vec<String> = numbers.iter().map(u16::to_string).collect();
            numbers.join(":")
        };
        let params: Vec<String> = params.iter().map(join).collect();
        self.0.push_str("\x1b[");
        self.0.push_str(&params.join(";"));
        self.0.push(char::from(last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut filter = Filter::default();
        filter.pass(text.as_bytes())
    }

    #[test]
    fn text_and_colours_pass() {
        for text in [
            "plain\tü £ 你好\r\n",
            "\x1b[1;31mred\x1b[0m",
            "\x1b[38:5:9mx\x1b[38;2;1;2;3my",
            "50 %\r\x1b[0K",
        ] {
            assert_eq!(shown(text), text);
        }
        // Omitted parameters become explicit.
        assert_eq!(shown("\x1b[mx\x1b[K"), "\x1b[0mx\x1b[0K");
    }

    #[test]
    fn what_steers_the_terminal_does_not() {
        let cases = [
            ("a\x1b]0;title\x07b", "ab"),
            ("a\x1b]52;c;aGk=\x1b\\b", "ab"),
            ("a\x1b[2Jb\x1b[?1049hc\x1b[6nd", "abcd"),
            ("a\x1bcb\x1b(0c", "abc"),
            ("a\u{9b}2Jb\u{85}c", "a2Jbc"),
            ("a\x07\x00\x7fb", "ab"),
            ("\x1bPq#0\x1b\\x", "x"),
            ("a\x1b_app\x1b\\b\x1b^p\x1b\\c\x1bXs\x1b\\d", "abcd"),
            ("a\x1b[?25lb\x1b[>4;1mc\x1b[!pd", "abcd"),
            ("a\x1b[31\x18mb\x1b]0;t\x1ac", "ambc"),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_sequence_without_end_hides_at_most_its_line() {
        assert_eq!(shown("a\x1b]0;b\nc"), "a\nc");
        assert_eq!(shown("a\x1b[\nc"), "a\nc");
        assert_eq!(shown("a\x1b[\x1b[31mc"), "a\x1b[31mc");
    }

    /// No input produces anything but text in colours.
    #[test]
    fn nothing_else_comes_out() {
        const PARTS: [&[u8]; 20] = [
            b"\x1b[",
            b"\x1b]",
            b"\x1bP",
            b"\x1b",
            b"\x9b",
            b"\xc2",
            b"\xc2\x9b",
            b"\xe2\x80",
            b"[",
            b"1",
            b";31",
            b":5",
            b"?",
            b" ",
            b"m",
            b"K",
            b"J",
            b"\x07",
            b"\x18",
            b"\n",
        ];
        let mut seed = 7_u32;
        let mut bytes = Vec::new();
        for _ in 0..200_000 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            bytes.extend_from_slice(PARTS[(seed >> 16) as usize % PARTS.len()]);
        }
        let text = Filter::default().pass(&bytes);
        let mut sequences = text.split('\x1b');
        let mut letters = sequences.next().unwrap().to_owned();
        let mut count = 0;
        for sequence in sequences {
            let end = sequence.find(|c: char| !"[0123456789:;".contains(c)).unwrap();
            let (sequence, rest) = sequence.split_at(end + 1);
            assert!(sequence.starts_with('[') && sequence.ends_with(['m', 'K']), "{sequence:?}");
            letters.push_str(rest);
            count += 1;
        }
        assert!(count > 1_000, "{count}");
        let steers = |c: char| c.is_control() && c != '\n';
        assert!(!letters.contains(steers));
    }

    #[test]
    fn pieces_make_no_difference() {
        let text = "a\x1b[1;31mred £\x1b[0m\x1b]0;t\x07\u{9b}b\x1b[2J.";
        let mut filter = Filter::default();
        let pieces: String = text.bytes().map(|b| filter.pass(&[b])).collect();
        assert_eq!(pieces, shown(text));
    }
}
