//! Parsers of MCP clients' input, for fuzz targets and tests.

use serde_json::{Map, Value};

use belljar_text::{line_of, lines_of};

use super::arguments::Call;
use super::uri::Place;

/// Parses the bytes as the format that the first byte selects, and returns whether they are valid.
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

/// A tool call: name, line break, arguments.
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
