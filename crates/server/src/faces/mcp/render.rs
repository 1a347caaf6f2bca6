//! Converts an outcome to a tool result: text, figures, resource links and structured content.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar::Outcome;
use belljar::outcome::Truncated;
use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde_json::Value;

use super::uri::Place;
use belljar_text::cut;

/// Maximum number of figures returned as images. Others are linked like files.
const MAX_IMAGES: usize = 8;
/// Maximum size of an image, in bytes.
const MAX_IMAGE: u64 = 2 << 20;
/// Maximum size of all images, in bytes.
const MAX_IMAGES_TOGETHER: u64 = 4 << 20;
/// Maximum number of links to files.
const MAX_LINKS: usize = 50;
/// Maximum length of a text part, in characters. Omitted text is in the structured content.
const MAX_PART: usize = 50_000;
/// Maximum number of tables shown if nothing was printed, and maximum length in characters.
const MAX_TABLES: usize = 5;
const MAX_TABLE: usize = 5_000;

/// A run to render, and where its files are.
pub(super) struct Shown<'a> {
    pub outcome: &'a Outcome,
    /// Where its files can be read later.
    pub place: Option<Place>,
    /// Whether the client supports resource links. Others get the URIs as text.
    pub has_links: bool,
}

/// The figures to return as images: supported formats within the limits, without duplicates.
pub(super) fn images(outcome: &Outcome) -> Vec<&str> {
    let mut left = MAX_IMAGES_TOGETHER;
    let mut chosen = Vec::new();
    for plot in &outcome.plots {
        let is_there = plot.repeats.as_deref().is_some_and(|other| chosen.contains(&other));
        let fits = plot.size <= MAX_IMAGE.min(left) && !is_there;
        if chosen.len() < MAX_IMAGES && fits && image_type(&plot.path).is_some() {
            left -= plot.size;
            chosen.push(plot.path.as_str());
        }
    }
    chosen
}

impl Shown<'_> {
    /// The result of the call. `images` are the figures' bytes.
    pub(super) fn result(&self, images: &[(String, Vec<u8>)]) -> CallToolResult {
        let outcome = self.outcome;
        let mut content = vec![ContentBlock::text(self.text())];
        for (path, bytes) in images {
            if let Some(kind) = image_type(path) {
                content.push(ContentBlock::image(BASE64.encode(bytes), kind));
            }
        }
        if self.has_links {
            content.extend(self.links().map(ContentBlock::resource_link));
        } else {
            let lines: Vec<String> =
                self.links().map(|link| format!("{}: {}", link.name, link.uri)).collect();
            if !lines.is_empty() {
                content.push(ContentBlock::text(lines.join("\n")));
            }
        }
        let mut result = if outcome.success {
            CallToolResult::success(content)
        } else {
            CallToolResult::error(content)
        };
        result.structured_content = Some(serde_json::to_value(outcome).unwrap_or_default());
        result
    }

    fn text(&self) -> String {
        let outcome = self.outcome;
        let detail = outcome.error_detail.as_ref();
        let traceback = detail.and_then(|detail| detail.traceback.as_deref()).unwrap_or_default();
        let mut parts = Vec::new();
        let mut add = |text: String| {
            if !text.trim().is_empty() {
                parts.push(text);
            }
        };
        add(middle_cut(&outcome.stdout));
        let stderr = outcome.stderr.strip_suffix(traceback).unwrap_or(&outcome.stderr);
        if !stderr.trim().is_empty() {
            add(format!("stderr:\n{}", middle_cut(stderr)));
        }
        if outcome.result != Value::Null {
            add(format!("result = {}", middle_cut(&outcome.result.to_string())));
        }
        if let Some(error) = &outcome.error {
            add(error_text(error, traceback, detail.and_then(|detail| detail.hint.as_deref())));
        }
        if outcome.success && outcome.stdout.trim().is_empty() {
            for table in outcome.dataframes.iter().take(MAX_TABLES) {
                add(format!("{} =\n{}", table.name, cut(table.repr.clone(), MAX_TABLE)));
            }
        }
        add(self.notes());
        if parts.is_empty() {
            return "(no output)".to_owned();
        }
        let mut text = String::new();
        for part in parts {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&part);
        }
        text
    }

    fn notes(&self) -> String {
        let outcome = self.outcome;
        let mut notes = Vec::new();
        let names = |paths: Vec<&str>| paths.join(", ");
        let files: Vec<&str> =
            outcome.files.iter().take(MAX_LINKS).map(|file| file.path.as_str()).collect();
        if !files.is_empty() {
            let more = outcome.files.len() - files.len();
            let more = if more > 0 {
                format!(", and {more} more")
            } else {
                String::new()
            };
            notes.push(format!("[files: {}{more}]", cut(names(files), MAX_TABLE)));
        }
        let cut: Vec<&str> = outcome.truncated.iter().map(|what| what_of(*what)).collect();
        if !cut.is_empty() {
            notes.push(format!("[truncated at the limit: {}]", cut.join(", ")));
        }
        if let Some(session) = &outcome.session
            && session.interpreter_restarted
        {
            let why = session.restart_reason.as_deref().unwrap_or("its interpreter was lost");
            notes.push(format!(
                "[the session is back in its state before this run, because its interpreter was lost: {why}]"
            ));
        }
        notes.join("\n")
    }

    fn links(&self) -> impl Iterator<Item = Resource> {
        let link = |place: &Place, file: &belljar::outcome::FileEntry| {
            let resource =
                Resource::new(place.uri_of(&file.path), &*file.path).with_size(file.size);
            match mime_guess::from_path(&file.path).first_raw() {
                Some(kind) => resource.with_mime_type(kind),
                None => resource,
            }
        };
        let regular = self.outcome.files.iter().filter(|file| file.symlink.is_none());
        let regular = regular.take(MAX_LINKS);
        self.place.iter().flat_map(move |place| regular.clone().map(move |file| link(place, file)))
    }
}

fn error_text(error: &str, traceback: &str, hint: Option<&str>) -> String {
    let mut text = error.to_owned();
    if !traceback.is_empty() {
        text = format!("{text}\n\n{}", middle_cut(traceback).trim_end());
    }
    if let Some(hint) = hint {
        text = format!("{text}\nHint: {hint}");
    }
    text
}

fn what_of(what: Truncated) -> &'static str {
    match what {
        Truncated::Stdout => "stdout",
        Truncated::Stderr => "stderr",
        Truncated::Dataframes => "tables",
        Truncated::Result => "result",
        _ => "events",
    }
}

/// The media type of an image format that clients support.
fn image_type(path: &str) -> Option<&'static str> {
    let kind = mime_guess::from_path(path).first_raw()?;
    matches!(kind, "image/png" | "image/jpeg" | "image/gif" | "image/webp").then_some(kind)
}

/// The start and end of a long text.
fn middle_cut(text: &str) -> String {
    let count = text.chars().count();
    if count <= MAX_PART {
        return text.to_owned();
    }
    let half = MAX_PART / 2;
    let place = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    let (head, tail) = (&text[..place(half)], &text[place(count - half)..]);
    format!("{head}\n[... {} characters omitted ...]\n{tail}", count - 2 * half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_keeps_its_beginning_and_its_end() {
        let text = format!("a{}é", "é".repeat(200_000));
        let shown = middle_cut(&text);
        assert!(shown.starts_with("aé") && shown.ends_with('é'));
        assert!(shown.contains("[... 150002 characters omitted ...]"), "{}", shown.len());
    }

    #[test]
    fn only_pictures_that_clients_show_are_images() {
        assert_eq!(image_type("plots/a.PNG"), Some("image/png"));
        for path in ["a.svg", "a.html", "a", "a.png.exe", "a.tiff"] {
            assert_eq!(image_type(path), None, "{path}");
        }
    }
}
