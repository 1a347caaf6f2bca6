//! URIs of files: `belljar://runs/ID/files/PATH` and `belljar://sessions/ID/files/PATH`.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Characters of a path that a URI encodes.
const RESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Where a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Among the files of a run.
    Run(String),
    /// In a session's workspace.
    Session(String),
}

impl Place {
    /// The URI of a file.
    pub(super) fn uri_of(&self, path: &str) -> String {
        let (kind, id) = match self {
            Self::Run(id) => ("runs", id),
            Self::Session(id) => ("sessions", id),
        };
        format!("belljar://{kind}/{id}/files/{}", utf8_percent_encode(path, RESERVED))
    }

    /// Parses a URI.
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

/// URI templates.
pub(super) const TEMPLATES: [(&str, &str, &str); 2] = [
    (
        "belljar://runs/{id}/files/{+path}",
        "run file",
        "A file written by a run, kept for ten minutes.",
    ),
    ("belljar://sessions/{id}/files/{+path}", "session file", "A file in a session's workspace."),
];

/// Decodes a path. Rejects incomplete escapes, which the decoder would leave as they are.
fn decoded(text: &str) -> Option<String> {
    let is_escape = |rest: &str| {
        rest.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(is_escape) {
        return None;
    }
    Some(percent_decode_str(text).decode_utf8().ok()?.into_owned())
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
