//! Completing names: those of the language, and those that were typed.
//!
//! The session is not asked for its names: that would be a run, and what it ran could do anything.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::command::COMMANDS;

/// More names than this are not kept.
const MOST: usize = 10_000;

const PYTHON: &str = "\
False None True and as assert async await break class continue def del elif else except finally \
for from global if import in is lambda nonlocal not or pass raise return try while with yield \
abs all any ascii bin bool breakpoint bytearray bytes callable chr classmethod compile complex \
delattr dict dir divmod enumerate eval exec filter float format frozenset getattr globals hasattr \
hash help hex id input int isinstance issubclass iter len list locals map max memoryview min next \
object oct open ord pow print property range repr reversed round set setattr slice sorted \
staticmethod str sum super tuple type vars zip ArithmeticError AssertionError AttributeError \
BaseException EOFError Exception FileExistsError FileNotFoundError ImportError IndexError KeyError \
KeyboardInterrupt LookupError MemoryError ModuleNotFoundError NameError NotImplementedError OSError \
OverflowError PermissionError RecursionError RuntimeError StopIteration SyntaxError SystemExit \
TimeoutError TypeError UnicodeDecodeError ValueError ZeroDivisionError __file__ __name__";

/// The names that are known.
#[derive(Debug)]
pub(super) struct Words(Mutex<BTreeSet<String>>);

impl Words {
    pub(super) fn new() -> Self {
        Self(Mutex::new(PYTHON.split(' ').map(str::to_owned).collect()))
    }

    /// Takes the names in a piece of code.
    pub(super) fn learn(&self, code: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for name in code.split(|c| !is_name(c)) {
            let begins = name.chars().next().is_some_and(|c| !c.is_numeric());
            if begins && name.chars().nth(1).is_some() && known.len() < MOST {
                known.insert(name.to_owned());
            }
        }
    }

    fn starting_with(&self, start: &str) -> Vec<String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let from = known.range(start.to_owned()..);
        from.take_while(|name| name.starts_with(start)).cloned().collect()
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where the word begins that ends at the cursor, and what it may become.
fn candidates(words: &Words, before: &str) -> (usize, Vec<String>) {
    if let Some(start) = before.strip_prefix('%').filter(|start| start.chars().all(is_name)) {
        let known = COMMANDS.iter().map(|(name, ..)| *name);
        return (1, known.filter(|name| name.starts_with(start)).map(str::to_owned).collect());
    }
    let start = before.trim_end_matches(is_name).len();
    if before.trim().is_empty() {
        return (start, vec!["    ".to_owned()]);
    }
    match &before[start..] {
        "" => (start, Vec::new()),
        word => (start, words.starting_with(word)),
    }
}

/// Completion by the tab key.
pub(super) struct Completion {
    words: Arc<Words>,
    files: FilenameCompleter,
}

impl Completion {
    pub(super) fn new(words: Arc<Words>) -> Self {
        Self {
            words,
            files: FilenameCompleter::new(),
        }
    }
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        if ["%checkpoint ", "%restore "].iter().any(|command| line.starts_with(command)) {
            return self.files.complete_path(line, cursor);
        }
        let (start, found) = candidates(&self.words, &line[..cursor]);
        let pair = |name: String| Pair {
            display: name.clone(),
            replacement: name,
        };
        Ok((start, found.into_iter().map(pair).collect()))
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {}
impl Validator for Completion {}
impl Helper for Completion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_that_were_typed_or_are_pythons() {
        let words = Words::new();
        words.learn("revenue = [1, 2]\nx = 3\nfor größe in revenue: print(größe, 2e5)");
        let found = |before| candidates(&words, before);
        assert_eq!(found("print(reven"), (6, vec!["revenue".to_owned()]));
        assert_eq!(found("a.grö"), (2, vec!["größe".to_owned()]));
        assert_eq!(found("isin").1, ["isinstance"]);
        assert!(found("x").1.is_empty() && found("2e").1.is_empty() && found("f(").1.is_empty());
    }

    #[test]
    fn commands_are_completed_after_the_percent_sign() {
        let words = Words::new();
        let found = |before| candidates(&words, before).1;
        assert_eq!(found("%re"), ["rewind", "reset", "restore"]);
        assert_eq!(found("x %re"), ["repr", "return", "reversed"]);
    }

    #[test]
    fn tab_indents_at_the_beginning_of_a_line() {
        assert_eq!(candidates(&Words::new(), "  "), (2, vec!["    ".to_owned()]));
    }

    #[test]
    fn there_is_an_end_to_learning() {
        let words = Words::new();
        for n in 0..MOST + 10 {
            words.learn(&format!("name_{n}"));
        }
        assert_eq!(words.0.lock().unwrap().len(), MOST);
    }
}
