//! Addresses of files: `belljar://runs/ID/files/PATH` and `belljar://sessions/ID/files/PATH`.

use std::fmt::Write as _;

/// Where files lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In what a run left.
    Run(String),
    /// In the workspace of a session.
    Session(String),
}

impl Place {
    /// The address of a file.
    pub(super) fn uri_of(&self, path: &str) -> String {
        let (kind, id) = match self {
            Self::Run(id) => ("runs", id),
            Self::Session(id) => ("sessions", id),
        };
        format!("belljar://{kind}/{id}/files/{}", encoded(path))
    }

    /// What an address names.
    pub(super) fn parse(uri: &str) -> Option<(Self, String)> {
        let (kind, rest) = uri.strip_prefix("belljar://")?.split_once('/')?;
        let (id, path) = rest.split_once("/files/")?;
        let is_id = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if id.is_empty() || !id.chars().all(is_id) || path.is_empty() {
            return None;
        }
        let place = match kind {
            "runs" => Self::Run(id.to_owned()),
            "sessions" => Self::Session(id.to_owned()),
            _ => return None,
        };
        Some((place, decoded(path)?))
    }
}

/// The forms that addresses have.
pub(super) const TEMPLATES: [(&str, &str, &str); 2] = [
    ("belljar://runs/{id}/files/{+path}", "run file", "A file that a run left, for ten minutes."),
    ("belljar://sessions/{id}/files/{+path}", "session file", "A file in a session's workspace."),
];

fn encoded(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_back_to_its_file() {
        proptest::proptest!(|(path in ".{1,60}")| {
            for place in [Place::Run("a1".into()), Place::Session("0f".into())] {
                let uri = place.uri_of(&path);
                assert!(uri.is_ascii());
                assert_eq!(Place::parse(&uri), Some((place, path.clone())));
            }
        });
    }

    #[test]
    fn what_is_no_address_names_nothing() {
        for uri in [
            "",
            "belljar://",
            "file:///etc/passwd",
            "belljar://runs/a/files/",
            "belljar://runs//files/a",
            "belljar://runs/../files/a",
            "belljar://other/a/files/b",
            "belljar://runs/a/files/%",
            "belljar://runs/a/files/%+1",
            "belljar://runs/a/files/%ff",
        ] {
            assert_eq!(Place::parse(uri), None, "{uri}");
        }
        proptest::proptest!(|(uri in "(belljar://)?(runs|sessions)?/?.{0,30}")| {
            let _ = Place::parse(&uri);
        });
    }
}
