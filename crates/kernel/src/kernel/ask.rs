//! Questions: completion, inspection, whether code is complete.

use std::fmt::Write;

use belljar::session::{Completeness, Inspection};
use serde_json::{Value, json};

use super::life::Life;
use super::{Asked, Inner, error};
use crate::backend::Failure;

impl Life {
    pub(super) async fn complete(&self, inner: &Inner, asked: &Asked) -> Value {
        let (code, cursor) = place(asked);
        let completion = match self.session(inner).await {
            Ok(session) => session.complete(code, cursor).await,
            Err(failure) => Err(failure),
        };
        match completion {
            Ok(completion) => json!({
                "status": "ok",
                "matches": completion.matches,
                "cursor_start": completion.start,
                "cursor_end": cursor,
                "metadata": {},
            }),
            Err(failure) => failed(&failure),
        }
    }

    pub(super) async fn inspect(&self, inner: &Inner, asked: &Asked) -> Value {
        let (code, cursor) = place(asked);
        let level = asked.message.content.get("detail_level").and_then(Value::as_u64);
        let inspection = match self.session(inner).await {
            Ok(session) => {
                session.inspect(code, cursor, level.is_some_and(|level| level > 0)).await
            }
            Err(failure) => Err(failure),
        };
        match inspection {
            Ok(found) => {
                let data = match &found {
                    Some(inspection) => json!({"text/plain": page(inspection)}),
                    None => json!({}),
                };
                json!({"status": "ok", "found": found.is_some(), "data": data, "metadata": {}})
            }
            Err(failure) => failed(&failure),
        }
    }

    pub(super) async fn is_complete(&self, inner: &Inner, asked: &Asked) -> Value {
        let code = asked.message.content.get("code").and_then(Value::as_str).unwrap_or_default();
        let answer = match self.session(inner).await {
            Ok(session) => session.is_complete(plain(code)).await.ok(),
            Err(_) => None,
        };
        match answer {
            Some(Completeness::Complete) => json!({"status": "complete"}),
            Some(Completeness::Incomplete { indent }) => {
                json!({"status": "incomplete", "indent": indent})
            }
            Some(Completeness::Invalid) => json!({"status": "invalid"}),
            _ => json!({"status": "unknown"}),
        }
    }
}

/// Code, and the cursor in it in characters.
fn place(asked: &Asked) -> (String, usize) {
    let content = &asked.message.content;
    let code = content.get("code").and_then(Value::as_str).unwrap_or_default();
    let length = code.chars().count();
    let cursor = content.get("cursor_pos").and_then(Value::as_u64);
    let cursor = cursor.and_then(|cursor| usize::try_from(cursor).ok());
    (code.to_owned(), cursor.map_or(length, |cursor| cursor.min(length)))
}

fn failed(failure: &Failure) -> Value {
    error(&failure.name, &failure.text, std::slice::from_ref(&failure.text))
}

/// The description of a name, for people.
fn page(found: &Inspection) -> String {
    let parts = [
        ("Signature:", found.signature.as_deref().map(|s| format!("{}{s}", found.name))),
        ("Type:     ", Some(found.class.clone())),
        ("Value:    ", Some(found.text.clone()).filter(|_| found.signature.is_none())),
        ("Docstring:", found.doc.clone().filter(|_| found.source.is_none())),
        ("Source:   ", found.source.clone()),
    ];
    let mut page = String::new();
    for (title, text) in parts {
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            continue;
        };
        let space = if text.contains('\n') { '\n' } else { ' ' };
        // Writing to a string cannot fail.
        let _ = writeln!(page, "{title}{space}{}", text.trim_end());
    }
    page
}

/// The code with commands of notebooks replaced, to check whether the rest is complete.
fn plain(code: &str) -> String {
    let is_command = |line: &str| {
        let line = line.trim_start();
        line.starts_with(['%', '!']) || line.starts_with('?') || line.trim_end().ends_with('?')
    };
    if code.trim_start().starts_with("%%") {
        // The rest belongs to the command.
        return "pass".to_owned();
    }
    let mut text: Vec<String> = Vec::new();
    for line in code.split('\n') {
        let indent = &line[..line.len() - line.trim_start().len()];
        text.push(if is_command(line) {
            format!("{indent}pass")
        } else {
            line.to_owned()
        });
    }
    text.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_notebooks_are_set_aside() {
        assert_eq!(
            plain("x = 1\nif x:\n    !ls\n    %time f()"),
            "x = 1\nif x:\n    pass\n    pass"
        );
        assert_eq!(plain("%%bash\nls ("), "pass");
        assert_eq!(plain("len?"), "pass");
        assert_eq!(plain("x = (1 +"), "x = (1 +");
    }
}
