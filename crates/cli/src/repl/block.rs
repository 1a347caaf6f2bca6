//! Multi-line input: finds the end of a piece of Python, as Python's own prompt does.
//!
//! A heuristic from brackets, quotes, colons and indentation. If it is wrong, Python reports an
//! error, or an empty line ends the block.

/// The lines of an unfinished piece of code.
#[derive(Debug, Default)]
pub(super) struct Block {
    text: String,
}

/// Words that start a statement with a body, in addition to a colon at the end of the line.
const COMPOUND: &[&str] = &["if", "for", "while", "def", "class", "with", "try", "async"];
/// Statements that usually end a body.
const LAST: &[&str] = &["return", "pass", "break", "continue", "raise"];
const INDENT: usize = 4;

impl Block {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Discards the lines.
    pub(super) fn clear(&mut self) {
        self.text.clear();
    }

    /// The lines so far.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Adds a line, and returns the code if it is complete. Input with line breaks, from a paste or
    /// the history, needs no empty line to end it.
    pub(super) fn push(&mut self, entered: &str) -> Option<String> {
        self.text.push_str(entered);
        self.text.push('\n');
        let shape = Shape::of(&self.text);
        let whole = entered.contains('\n') || is_blank(entered) || !shape.has_body;
        (shape.is_closed() && whole).then(|| self.take())
    }

    /// Takes the lines.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// The likely indentation of the next line.
    pub(super) fn indent(&self) -> String {
        let shape = Shape::of(&self.text);
        let last = self.text.lines().next_back().unwrap_or("");
        if !shape.is_closed() || !shape.has_body || is_blank(last) {
            return String::new();
        }
        let indent = last.len() - last.trim_start().len();
        let first = first_word(last);
        let indent = if shape.ends_in_colon {
            indent + INDENT
        } else if LAST.contains(&first) {
            indent.saturating_sub(INDENT)
        } else {
            indent
        };
        " ".repeat(indent)
    }
}

/// Whether `code` has nothing to run.
pub(super) fn is_idle(code: &str) -> bool {
    code.lines().all(|line| is_blank(line) || line.trim_start().starts_with('#'))
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

fn first_word(line: &str) -> &str {
    let line = line.trim_start();
    let end = line.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(line.len());
    &line[..end]
}

/// Properties of a piece of code, found without parsing it.
#[derive(Debug, Default)]
struct Shape {
    /// The quotes of an unfinished string.
    quotes: Option<[char; 3]>,
    brackets: i32,
    /// Whether the last line ends in a backslash.
    goes_on: bool,
    /// Whether the last line with code ends in a colon.
    ends_in_colon: bool,
    /// Whether a statement has an indented body.
    has_body: bool,
}

impl Shape {
    fn of(text: &str) -> Self {
        let mut shape = Self::default();
        for line in text.lines() {
            shape.line(line);
        }
        shape
    }

    fn is_closed(&self) -> bool {
        self.quotes.is_none() && self.brackets <= 0 && !self.goes_on
    }

    fn line(&mut self, line: &str) {
        if self.is_closed() {
            let begins = COMPOUND.contains(&first_word(line)) || line.trim_start().starts_with('@');
            self.has_body |= begins;
        }
        self.goes_on = false;
        let mut last = None;
        let mut rest = line.chars();
        while let Some(c) = rest.next() {
            if let Some(quotes) = self.quotes {
                self.text(c, quotes, &mut rest);
                last = Some(c);
                continue;
            }
            match c {
                '#' => break,
                '\'' | '"' => self.open(c, &mut rest),
                '(' | '[' | '{' => self.brackets += 1,
                ')' | ']' | '}' => self.brackets -= 1,
                '\\' if rest.as_str().is_empty() => self.goes_on = true,
                _ => {}
            }
            if !c.is_whitespace() {
                last = Some(c);
            }
        }
        if last.is_some() {
            self.ends_in_colon = last == Some(':') && self.is_closed();
            self.has_body |= self.ends_in_colon;
        }
    }

    /// Starts a string at its first quote. Skips single-quoted strings here, because they end on
    /// the same line.
    fn open(&mut self, quote: char, rest: &mut std::str::Chars<'_>) {
        let two = [quote; 2].iter().collect::<String>();
        if let Some(after) = rest.as_str().strip_prefix(&two) {
            *rest = after.chars();
            self.quotes = Some([quote; 3]);
            return;
        }
        while let Some(c) = rest.next() {
            match c {
                '\\' if rest.next().is_none() => self.goes_on = true,
                _ if c == quote => return,
                _ => {}
            }
        }
    }

    /// Advances by a character in a string.
    fn text(&mut self, c: char, quotes: [char; 3], rest: &mut std::str::Chars<'_>) {
        if c == '\\' {
            rest.next();
        } else if c == quotes[0] {
            let two: String = quotes[1..].iter().collect();
            if let Some(after) = rest.as_str().strip_prefix(&two) {
                *rest = after.chars();
                self.quotes = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines after which a piece of code ends.
    fn ends(lines: &[&str]) -> Vec<usize> {
        let mut block = Block::default();
        let ended = lines.iter().enumerate().filter(|(_, line)| block.push(line).is_some());
        ended.map(|(number, _)| number).collect()
    }

    #[test]
    fn a_line_is_enough_unless_something_is_open() {
        for line in [
            "1 + 1",
            "x = {'a': 1}",
            "f('(')",
            "'it''s #'  # (",
            "x = '\"\"\"'",
            "print(1))",
            "iffy = 1",
            "matched",
            "r'\\'",
            "\"\"\"text\"\"\"",
            "'not closed",
            "",
        ] {
            assert_eq!(ends(&[line]), [0], "{line}");
        }
        for line in [
            "f(",
            "[1,",
            "x = 1 + \\",
            "\"\"\"text",
            "'''it's \\'''",
            "if x:",
            "for i in y: print(i)",
            "@cached",
            "else:",
            "match x:  # which",
            "async def f():",
            "class A: pass",
            "'goes on \\",
        ] {
            assert!(ends(&[line]).is_empty(), "{line}");
        }
    }

    #[test]
    fn an_empty_line_ends_a_body() {
        assert_eq!(ends(&["if x:", "    y", "else:", "    z", "", "1"]), [4, 5]);
        assert_eq!(ends(&["def f():", "    return (", "", "    1)", "   "]), [4]);
        assert_eq!(
            ends(&["@cached", "def f(a,", "      b):", "    '''doc", "", "    '''", ""]),
            [6]
        );
    }

    #[test]
    fn what_is_open_is_closed_by_its_own_kind_only() {
        assert_eq!(ends(&["f(", "'''", ")", "", "''')"]), [4]);
        assert_eq!(ends(&["x = [", "# ]", "']'", "]"]), [3]);
        assert_eq!(ends(&["x = 1 + \\", "2"]), [1]);
        assert_eq!(ends(&["x = 'a\\", "b'"]), [1]);
    }

    #[test]
    fn a_colon_in_brackets_begins_no_body() {
        assert_eq!(ends(&["x = {1:", "2}"]), [1]);
        assert_eq!(ends(&["x[1:"]), [] as [usize; 0]);
    }

    #[test]
    fn what_comes_with_its_line_breaks_is_whole() {
        assert_eq!(ends(&["for i in x:\n    print(i)"]), [0]);
        assert_eq!(ends(&["f(\n1"]), [] as [usize; 0]);
    }

    #[test]
    fn the_next_line_is_indented_like_a_body() {
        let after = |lines: &[&str]| {
            let mut block = Block::default();
            for line in lines {
                assert!(block.push(line).is_none());
            }
            block.indent().len()
        };
        assert_eq!(after(&["if x:"]), 4);
        assert_eq!(after(&["if x:", "    y = 1"]), 4);
        assert_eq!(after(&["def f():", "    if x:  # why"]), 8);
        assert_eq!(after(&["def f():", "    if x:", "        return 1"]), 4);
        assert_eq!(after(&["f("]), 0);
        assert_eq!(after(&["@cached"]), 0);
    }

    #[test]
    fn comments_are_nothing_to_run() {
        assert!(is_idle("") && is_idle("  \n# a\n   # b"));
        assert!(!is_idle("# a\n1"));
    }
}
