//! Limits the log of a run with deferred tools. The run is replayed with its log, possibly in
//! another process, so its size there is limited here.

use std::io;

use serde::Serialize;

use crate::api::outcome::ToolErrorKind;
use crate::api::tool::ToolError;
use crate::limits::{MAX_LOGGED_BYTES, MAX_LOGGED_LEVELS, MAX_LOGGED_VALUES};

/// The size of a JSON text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub bytes: u64,
    /// An upper bound of its values, including keys. It is exact for valid JSON, except that empty
    /// lists and objects count twice.
    pub values: u64,
    /// Nesting depth of lists and objects.
    pub levels: u32,
}

impl Weight {
    /// Size of a call in the log, without its arguments and its answer.
    const CALL: Self = Self {
        bytes: 256,
        values: 16,
        levels: 0,
    };

    /// Returns the size of `value` as JSON.
    pub(crate) fn of(value: &impl Serialize) -> serde_json::Result<Self> {
        let mut scale = Scale::default();
        serde_json::to_writer(&mut scale, value)?;
        Ok(scale.weight())
    }

    /// Returns the size of a text.
    pub(crate) fn of_text(text: &[u8]) -> Self {
        let mut scale = Scale::default();
        scale.add(text);
        scale.weight()
    }
}

/// Measures a text that arrives in parts.
#[derive(Default)]
struct Scale {
    bytes: u64,
    /// Number of values after the first.
    more: u64,
    level: u32,
    levels: u32,
    is_string: bool,
    is_escaped: bool,
}

impl Scale {
    fn add(&mut self, text: &[u8]) {
        self.bytes += text.len() as u64;
        for byte in text {
            if self.is_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.is_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.is_string = true,
                b',' | b':' => self.more += 1,
                b'[' | b'{' => {
                    self.more += 1;
                    self.level = self.level.saturating_add(1);
                    self.levels = self.levels.max(self.level);
                }
                b']' | b'}' => self.level = self.level.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn weight(&self) -> Weight {
        Weight {
            bytes: self.bytes,
            values: self.more + 1,
            levels: self.levels,
        }
    }
}

impl io::Write for Scale {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.add(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The remaining room in a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogRoom {
    bytes: u64,
    values: u64,
}

impl Default for LogRoom {
    fn default() -> Self {
        Self {
            bytes: MAX_LOGGED_BYTES,
            values: MAX_LOGGED_VALUES,
        }
    }
}

impl LogRoom {
    /// Takes the room for a call with these arguments.
    pub(crate) fn take_call(&mut self, arguments: &impl Serialize) -> Result<(), ToolError> {
        let own = Weight::of(arguments)?;
        self.take(Weight {
            bytes: own.bytes + Weight::CALL.bytes,
            values: own.values + Weight::CALL.values,
            levels: own.levels,
        })
    }

    /// Takes the room for an answer.
    pub(crate) fn take_answer(&mut self, answer: &impl Serialize) -> Result<(), ToolError> {
        self.take(Weight::of(answer)?)
    }

    fn take(&mut self, weight: Weight) -> Result<(), ToolError> {
        if weight.levels > MAX_LOGGED_LEVELS {
            let why = format!(
                "it is nested {} levels deep, at most {MAX_LOGGED_LEVELS} where a tool is deferred",
                weight.levels
            );
            return Err(ToolError::of(ToolErrorKind::TooLarge, why));
        }
        let bytes = self.bytes.checked_sub(weight.bytes);
        let values = self.values.checked_sub(weight.values);
        let Some((bytes, values)) = bytes.zip(values) else {
            let why = format!(
                "calls and answers of a run with a deferred tool have at most {} MiB and \
                 {MAX_LOGGED_VALUES} values of JSON together",
                MAX_LOGGED_BYTES >> 20
            );
            return Err(ToolError::of(ToolErrorKind::BudgetExceeded, why));
        };
        *self = Self { bytes, values };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (text, values, levels) in [
            ("1", 1, 0),
            ("[]", 2, 1),
            ("[1,2]", 3, 1),
            (r#"{"a":[1,"b,[{\",:"],"c":null}"#, 7, 2),
            (r#""\\",["#, 3, 1),
        ] {
            let weight = Weight::of_text(text.as_bytes());
            let bytes = text.len() as u64;
            let expected = Weight {
                bytes,
                values,
                levels,
            };
            assert_eq!(weight, expected, "{text}");
            if let Ok(value) = serde_json::from_str::<Value>(text) {
                assert_eq!(Weight::of(&value).unwrap(), expected);
            }
        }
    }

    #[test]
    fn a_log_has_room_for_so_much_and_no_more() {
        let mut room = LogRoom {
            bytes: 1_000,
            values: 50,
        };
        room.take_call(&json!({"a": 1})).unwrap();
        room.take_answer(&json!([1, 2])).unwrap();
        let (kind, why) = room.take_answer(&vec![0; 30]).unwrap_err().into_parts();
        assert_eq!(kind, ToolErrorKind::BudgetExceeded);
        assert!(why.contains("256 MiB and 3000000 values"), "{why}");
        room.take_answer(&json!("x".repeat(700))).unwrap();
        assert!(room.take_answer(&json!("x".repeat(100))).is_err());
        let deep = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        let mut room = LogRoom::default();
        room.take_answer(&deep(MAX_LOGGED_LEVELS)).unwrap();
        let (kind, _) = room.take_answer(&deep(MAX_LOGGED_LEVELS + 1)).unwrap_err().into_parts();
        assert_eq!(kind, ToolErrorKind::TooLarge);
    }
}
