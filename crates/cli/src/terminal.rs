//! Filter for what a guest says to a terminal.
//!
//! A terminal obeys escape sequences: they rename windows, set the clipboard, answer as if the
//! user had typed. Untrusted code gets colours and the clearing of its line, and nothing else of
//! that. Output that goes to a file or a pipe is not touched.

use std::borrow::Cow;

/// Removes the sequences from one stream of output, wherever it is cut into pieces.
#[derive(Debug, Default)]
pub(super) struct Filter {
    state: State,
    /// The parameters of the control sequence that is being read.
    sequence: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC `[`.
    Control,
    /// In a string such as a window's title, which BEL or ESC `\` ends.
    Str,
    /// After the first byte of a two-byte character that may be a control character.
    Latin,
}

/// No colour needs more parameters than this.
const LONGEST: usize = 64;

impl Filter {
    /// What of `bytes` may be shown.
    pub(super) fn pass<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.state == State::Text && bytes.iter().all(|&b| is_text(b)) {
            return Cow::Borrowed(bytes);
        }
        let mut shown = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            self.step(byte, &mut shown);
        }
        Cow::Owned(shown)
    }

    fn step(&mut self, byte: u8, shown: &mut Vec<u8>) {
        match self.state {
            State::Text => match byte {
                0x1b => self.state = State::Escape,
                0xc2 => self.state = State::Latin,
                _ if is_text(byte) => shown.push(byte),
                _ => {}
            },
            State::Latin => {
                self.state = State::Text;
                if !(0x80..0xa0).contains(&byte) {
                    shown.push(0xc2);
                    self.step(byte, shown);
                }
            }
            State::Escape => match byte {
                b'[' => {
                    self.sequence.clear();
                    self.state = State::Control;
                }
                b']' | b'P' | b'X' | b'^' | b'_' => self.state = State::Str,
                0x20..0x30 => {}
                _ => self.leave(byte, shown),
            },
            State::Control => match byte {
                0x20..0x40 => {
                    if self.sequence.len() <= LONGEST {
                        self.sequence.push(byte);
                    }
                }
                _ => self.end_control(byte, shown),
            },
            State::Str => match byte {
                0x07 => self.state = State::Text,
                0x1b | b'\n' => self.leave(byte, shown),
                _ => {}
            },
        }
    }

    fn end_control(&mut self, last: u8, shown: &mut Vec<u8>) {
        let harmless = |b: &u8| b.is_ascii_digit() || matches!(b, b';' | b':');
        if matches!(last, b'm' | b'K')
            && self.sequence.len() <= LONGEST
            && self.sequence.iter().all(harmless)
        {
            shown.extend_from_slice(b"\x1b[");
            shown.append(&mut self.sequence);
            shown.push(last);
        }
        self.leave(last, shown);
    }

    /// Goes back to text; a control character is not swallowed by the sequence that it breaks off.
    fn leave(&mut self, byte: u8, shown: &mut Vec<u8>) {
        self.state = State::Text;
        if byte < 0x20 {
            self.step(byte, shown);
        }
    }
}

/// Whether a byte alone steers nothing but the cursor on its line.
fn is_text(byte: u8) -> bool {
    match byte {
        b'\n' | b'\r' | b'\t' | 0x08 => true,
        0x00..0x20 | 0x7f | 0xc2 => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut filter = Filter::default();
        String::from_utf8(filter.pass(text.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn text_and_colours_pass() {
        for text in
            ["plain\tü £ 你好\r\n", "\x1b[1;31mred\x1b[0m", "\x1b[38:5:9mx\x1b[m", "50 %\r\x1b[K"]
        {
            assert_eq!(shown(text), text);
        }
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

    #[test]
    fn pieces_make_no_difference() {
        let text = "a\x1b[1;31mred £\x1b[0m\x1b]0;t\x07\u{9b}b\x1b[2J.";
        let mut filter = Filter::default();
        let pieces: Vec<u8> = text.bytes().flat_map(|b| filter.pass(&[b]).into_owned()).collect();
        assert_eq!(String::from_utf8(pieces).unwrap(), shown(text));
    }
}
