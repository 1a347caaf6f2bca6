//! Frames that display a value.

use serde::Deserialize;

use crate::api::outcome::event::{Display, EventKind};
use crate::limits::MAX_DISPLAY_FORMS;

/// Maximum length of a form's name and of a display id, in bytes.
const MAX_NAME: usize = 256;

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum DisplayFrame {
    Display(Display),
    Update(Display),
    Result(Display),
    Clear { wait: bool },
}

/// Parses a display frame; `None` if it does not have the runner's format.
pub(super) fn read(payload: &[u8]) -> Option<EventKind> {
    let kind = match serde_json::from_slice(payload).ok()? {
        DisplayFrame::Display(display) => EventKind::Display(checked(display)?),
        DisplayFrame::Update(display) => EventKind::UpdateDisplay(checked(display)?),
        DisplayFrame::Result(display) => EventKind::Result(checked(display)?),
        DisplayFrame::Clear { wait } => EventKind::Clear { wait },
    };
    Some(kind)
}

fn checked(display: Display) -> Option<Display> {
    let names = || display.data.keys().chain(display.display_id.as_ref());
    let fits =
        display.data.len() <= MAX_DISPLAY_FORMS && names().all(|name| name.len() <= MAX_NAME);
    (fits && display.data.keys().all(|name| is_media_type(name))).then_some(display)
}

/// Whether `name` looks like a media type: two names of printable ASCII, separated by `/`.
fn is_media_type(name: &str) -> bool {
    name.split_once('/').is_some_and(|(kind, form)| !kind.is_empty() && !form.is_empty())
        && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns an upper bound for the number of values in a JSON text, including keys: it counts
/// commas, colons and brackets outside of strings.
pub(super) fn values(json: &[u8]) -> usize {
    let (mut count, mut in_string, mut escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b':' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_without_reading_them() {
        assert_eq!(values(br#"{"a":[1,"x,[",{"b\"":2}]}"#), 8);
        assert_eq!(values(&[b'['; 1_000]), 1_001);
        assert_eq!(values(b""), 1);
    }

    #[test]
    fn only_media_types_name_forms() {
        let named =
            |name: &str| read(format!(r#"{{"kind":"display","data":{{"{name}":1}}}}"#).as_bytes());
        for name in ["text/plain", "application/vnd.plotly.v1+json", "text/html;charset=utf-8"] {
            assert!(named(name).is_some(), "{name}");
        }
        let long = format!("text/{}", "x".repeat(MAX_NAME));
        for name in
            ["", "text", "/", "text/", "/plain", "text/a b", "text/\\u0000", "text/\u{e9}", &long]
        {
            assert!(named(name).is_none(), "{name}");
        }
    }

    #[test]
    fn frames_are_read_by_their_kind() {
        assert_eq!(read(br#"{"kind":"clear","wait":true}"#), Some(EventKind::Clear { wait: true }));
        let update = read(br#"{"kind":"update","data":{},"metadata":{},"display_id":"i"}"#);
        assert!(
            matches!(update, Some(EventKind::UpdateDisplay(d)) if d.display_id.as_deref() == Some("i"))
        );
        for frame in [
            r#"{"kind":"ended"}"#,
            r#"{"kind":"display"}"#,
            r#"{"kind":"display","data":[]}"#,
            "[]",
        ] {
            assert!(read(frame.as_bytes()).is_none(), "{frame}");
        }
    }
}
