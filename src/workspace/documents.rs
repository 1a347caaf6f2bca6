//! Opens the documents that a run wrote, so that a broken one is reported with the run.
//!
//! Only names with one of the [`Kind`]s are opened. The bytes are hostile: nothing here recurses,
//! and what is read and inflated for one run is bounded. Documents past a bound are not checked.

mod archive;
mod pdf;
mod xml;

use std::io::Read;

use super::RunFile;
use crate::limits::{MAX_CHECKED_DOCUMENT, MAX_CHECKED_TOGETHER, MAX_DOCUMENT_PROBLEM};

/// A kind of document, by the extension of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pdf,
    /// Office Open XML, with a word that the content type of its main part contains.
    Office(&'static str),
    /// OpenDocument, with its media type after `application/vnd.oasis.opendocument.`.
    OpenDocument(&'static str),
}

impl Kind {
    fn of(path: &str) -> Option<Self> {
        Some(match extension(path).to_ascii_lowercase().as_str() {
            "pdf" => Self::Pdf,
            "docx" => Self::Office("wordprocessingml"),
            "xlsx" => Self::Office("spreadsheetml"),
            "pptx" => Self::Office("presentationml"),
            "odt" => Self::OpenDocument("text"),
            "ods" => Self::OpenDocument("spreadsheet"),
            "odp" => Self::OpenDocument("presentation"),
            _ => return None,
        })
    }
}

/// The reason why a document is not accepted.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    /// It is broken.
    Problem(String),
    /// A bound was reached before the end.
    Unchecked,
}

impl Fault {
    fn problem<T>(what: impl Into<String>) -> Result<T, Self> {
        Err(Self::Problem(what.into()))
    }
}

/// Checks the documents of one run.
#[derive(Debug)]
pub(crate) struct Checker {
    /// Bytes that may still be read and inflated.
    left: u64,
}

impl Checker {
    pub(crate) fn new() -> Self {
        Self {
            left: MAX_CHECKED_TOGETHER,
        }
    }

    /// Describes what is wrong with a document; `None` if nothing is known to be. `open` is only
    /// called for a document.
    pub(crate) fn problem(
        &mut self,
        path: &str,
        open: impl FnOnce() -> Option<RunFile>,
    ) -> Option<String> {
        let kind = Kind::of(path)?;
        let file = open()?;
        let size = file.size();
        if size > MAX_CHECKED_DOCUMENT || size > self.left {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(size).read_to_end(&mut bytes).ok()?;
        match self.check(kind, &bytes) {
            Err(Fault::Problem(what)) => Some(shown(&what)),
            Ok(()) | Err(Fault::Unchecked) => None,
        }
    }

    fn check(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), Fault> {
        self.left = self.left.saturating_sub(bytes.len() as u64);
        match kind {
            _ if bytes.is_empty() => Fault::problem("the file is empty"),
            Kind::Pdf => pdf::check(bytes),
            Kind::Office(family) => archive::check_office(bytes, family, &mut self.left),
            Kind::OpenDocument(media) => archive::check_open(bytes, media, &mut self.left),
        }
    }
}

/// Returns what follows the last dot of a name.
fn extension(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// Returns a text that holds names of the guest's choice as one short line.
fn shown(text: &str) -> String {
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().take(MAX_DOCUMENT_PROBLEM).map(plain).collect()
}

/// Checks bytes as the document `name`, or as a part of one, `.xml`, for tests and fuzz targets.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn problem_of(name: &str, bytes: &[u8]) -> Option<String> {
    if extension(name) == "xml" {
        return xml::check(bytes, |_, _| {}).err();
    }
    match Checker::new().check(Kind::of(name)?, bytes) {
        Err(Fault::Problem(what)) => Some(shown(&what)),
        Ok(()) | Err(Fault::Unchecked) => None,
    }
}

#[cfg(test)]
mod tests;
