//! The parsers of what clients of MCP send, as fuzz targets and tests call them.

use serde_json::{Map, Value};

use belljar_text::{line_of, lines_of};

use super::arguments::Call;
use super::uri::Place;

/// Reads bytes in the form that the first one names; whether they are what they should be.
pub(crate) fn parse(bytes: &[u8]) -> bool {
    let Some((form, bytes)) = bytes.split_first() else {
        return false;
    };
    let text = String::from_utf8_lossy(bytes);
    match form % 3 {
        0 => call(bytes),
        1 => Place::parse(&text).is_some_and(|(place, path)| {
            assert_eq!(Place::parse(&place.uri_of(&path)), Some((place, path)));
            true
        }),
        _ => {
            let line = line_of(&text, 80);
            assert!(!line.contains(char::is_control) && line.chars().count() <= 81, "{line:?}");
            assert!(lines_of(&text, 80).chars().count() <= 81);
            !line.is_empty()
        }
    }
}

/// A call of one of our tools: its name, and after a line break its arguments.
fn call(bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (name, arguments) = bytes.split_at(end);
    let arguments: Option<Map<String, Value>> =
        serde_json::from_slice(arguments.get(1..).unwrap_or_default()).ok();
    match Call::of(&String::from_utf8_lossy(name), arguments) {
        Ok(Call::Write(asked)) => asked.bytes().is_ok(),
        read => read.is_ok(),
    }
}
