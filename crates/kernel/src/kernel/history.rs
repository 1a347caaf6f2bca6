//! The history of cells, for clients.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};

/// Maximum number of cells.
const MAX_CELLS: usize = 10_000;
/// Maximum total size of cells in bytes.
const MAX_BYTES: usize = 16 << 20;
/// The number of this session, the only one.
const SESSION: i64 = 1;

/// The cells of one life of a kernel.
#[derive(Debug, Default)]
pub(super) struct History {
    cells: VecDeque<Cell>,
    bytes: usize,
}

#[derive(Debug)]
struct Cell {
    number: u64,
    code: String,
    output: Option<String>,
}

impl Cell {
    fn size(&self) -> usize {
        self.code.len() + self.output.as_ref().map_or(0, String::len)
    }
}

impl History {
    /// Adds a cell, dropping the oldest cells beyond the limits.
    pub(super) fn push(&mut self, number: u64, code: String, output: Option<String>) {
        let cell = Cell {
            number,
            code,
            output,
        };
        self.bytes += cell.size();
        self.cells.push_back(cell);
        while self.cells.len() > MAX_CELLS || self.bytes > MAX_BYTES {
            let Some(oldest) = self.cells.pop_front() else {
                return;
            };
            self.bytes -= oldest.size();
        }
    }

    /// The reply to a `history_request`.
    pub(super) fn answer(&self, asked: &Map<String, Value>) -> Value {
        let text = |key: &str| asked.get(key).and_then(Value::as_str).unwrap_or_default();
        let number = |key: &str| asked.get(key).and_then(Value::as_i64);
        let flag = |key: &str| asked.get(key).and_then(Value::as_bool).unwrap_or_default();
        let most = number("n").map_or(usize::MAX, |n| usize::try_from(n).unwrap_or_default());
        let found: Vec<&Cell> = match text("hist_access_type") {
            "range" => {
                let is_this = matches!(number("session"), None | Some(0 | SESSION));
                let start = number("start").unwrap_or(0);
                let stop = number("stop").unwrap_or(i64::MAX);
                let is_asked = |cell: &&Cell| {
                    let number = i64::try_from(cell.number).unwrap_or(i64::MAX);
                    is_this && (start..stop).contains(&number)
                };
                self.cells.iter().filter(is_asked).collect()
            }
            "search" => last(self.search(text("pattern"), flag("unique")), most),
            _ => last(self.cells.iter().collect(), most),
        };
        let with_output = flag("output");
        let cells = found.into_iter().map(|cell| {
            let Cell {
                number,
                code,
                output,
            } = cell;
            if with_output {
                json!([SESSION, number, [code, output]])
            } else {
                json!([SESSION, number, code])
            }
        });
        json!({"status": "ok", "history": cells.collect::<Vec<_>>()})
    }

    fn search(&self, pattern: &str, is_unique: bool) -> Vec<&Cell> {
        let pattern: Vec<char> = if pattern.is_empty() { "*" } else { pattern }.chars().collect();
        let mut found: Vec<&Cell> = Vec::new();
        for cell in self.cells.iter().filter(|cell| matches(&pattern, &cell.code)) {
            if is_unique {
                // The latest of equal cells.
                found.retain(|other| other.code != cell.code);
            }
            found.push(cell);
        }
        found
    }
}

fn last(mut cells: Vec<&Cell>, most: usize) -> Vec<&Cell> {
    cells.drain(..cells.len().saturating_sub(most));
    cells
}

/// Matches a pattern in which `*` stands for any characters and `?` for one. The number of steps is
/// at most the product of both lengths.
fn matches(pattern: &[char], text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut from, mut star) = (0, 0, None);
    while from < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(one) if *one == '?' || *one == text[from] => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((star_at, taken)) = star else {
                    return false;
                };
                star = Some((star_at, taken + 1));
                (at, from) = (star_at + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|one| *one == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(history: &History, request: &Value) -> Value {
        history.answer(request.as_object().unwrap())["history"].clone()
    }

    fn history() -> History {
        let mut history = History::default();
        for (number, code) in ["1+2", "x = 1", "1+2"].into_iter().enumerate() {
            let output = code.starts_with('1').then(|| "3".to_owned());
            history.push(number as u64 + 1, code.to_owned(), output);
        }
        history
    }

    #[test]
    fn the_latest_come_last() {
        let tail = json!({"hist_access_type": "tail", "n": 2, "output": true});
        assert_eq!(
            asked(&history(), &tail),
            json!([[1, 2, ["x = 1", null]], [1, 3, ["1+2", "3"]]])
        );
        assert_eq!(asked(&history(), &json!({"hist_access_type": "tail", "n": -1})), json!([]));
    }

    #[test]
    fn ranges_are_of_this_session() {
        let range = |session, start, stop| json!({"hist_access_type": "range", "session": session, "start": start, "stop": stop});
        assert_eq!(asked(&history(), &range(1, 2, 3)), json!([[1, 2, "x = 1"]]));
        assert_eq!(asked(&history(), &range(0, 1, 3)).as_array().unwrap().len(), 2);
        assert_eq!(asked(&history(), &range(-1, 1, 3)), json!([]));
    }

    #[test]
    fn patterns_are_those_of_a_shell() {
        let search = |pattern, unique| json!({"hist_access_type": "search", "pattern": pattern, "unique": unique});
        assert_eq!(asked(&history(), &search("1*2", false)).as_array().unwrap().len(), 2);
        assert_eq!(asked(&history(), &search("1?2*", true)), json!([[1, 3, "1+2"]]));
        assert_eq!(asked(&history(), &search("2", false)), json!([]));
        assert!(!matches(&"*a*a*a*b".chars().collect::<Vec<_>>(), &"a".repeat(2_000)));
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut history = History::default();
        for number in 0..3 {
            history.push(number, "x".repeat(MAX_BYTES / 2), None);
        }
        assert_eq!(history.cells.len(), 2);
        assert_eq!(history.bytes, MAX_BYTES);
    }
}
