//! Opens the documents that a run wrote, so that a broken one is reported with the run.
//!
//! Only names with one of the [`Kind`]s are opened. The bytes are hostile: nothing here recurses,
//! and the time and memory of all documents of a run are bounded by one [`Budget`]. Documents past
//! a bound are not checked. A valid document has no problem: where a format is not understood,
//! nothing is reported.

mod archive;
mod pdf;
mod xml;

use std::collections::HashMap;
use std::io::Read;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::RunFile;
use crate::limits::{
    MAX_CHECK_WAIT, MAX_CHECKED_AT_ONCE, MAX_CHECKED_DOCUMENT, MAX_CHECKED_TOGETHER,
    MAX_DOCUMENT_PROBLEM, MAX_DOCUMENT_PROBLEMS,
};

/// What a document takes of the budget beyond its size, in bytes.
const OPENING: u64 = 1 << 10;

/// The start of a compound file: an encrypted office document, or one of an earlier format.
const COMPOUND: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";

/// A kind of document, by the extension of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// A bound was reached before the end, or its format is not understood.
    Unchecked,
}

impl Fault {
    /// `what` may hold text of the guest's choice.
    fn problem<T>(what: impl AsRef<str>) -> Result<T, Self> {
        Err(Self::Problem(shown(what.as_ref())))
    }

    /// Describes the problem in more words.
    fn told(self, describe: impl FnOnce(&str) -> String) -> Self {
        match self {
            Self::Problem(what) => Self::Problem(shown(&describe(&what))),
            Self::Unchecked => Self::Unchecked,
        }
    }
}

/// The bytes that may still be read and inflated for a run. Other work counts as bytes, too.
#[derive(Debug)]
struct Budget(u64);

impl Budget {
    /// Takes the bytes. If too few are left, takes all of them, and the next document finds none.
    fn spend(&mut self, bytes: u64) -> Result<(), Fault> {
        let suffices = bytes <= self.0;
        self.0 = self.0.saturating_sub(bytes);
        if suffices {
            Ok(())
        } else {
            Err(Fault::Unchecked)
        }
    }
}

/// Checks the documents of one run.
#[derive(Debug)]
pub(crate) struct Checker {
    budget: Budget,
    /// Results by the number of the file and kind: a guest may give one file a thousand names.
    known: HashMap<(u64, Kind), Option<String>>,
    /// Number of problems that may still be reported.
    reports: usize,
    turns: &'static Turns,
    /// How long the run may still wait for turns. Other runs may keep them busy.
    patience: Duration,
}

impl Checker {
    pub(crate) fn new() -> Self {
        Self {
            budget: Budget(MAX_CHECKED_TOGETHER),
            known: HashMap::new(),
            reports: MAX_DOCUMENT_PROBLEMS,
            turns: &TURNS,
            patience: MAX_CHECK_WAIT,
        }
    }

    /// Describes what is wrong with the document `path`, a name of file `number`; `None` if nothing
    /// is known to be. `open` is only called for a document. Blocks while others are checked, in
    /// total for at most [`MAX_CHECK_WAIT`].
    pub(crate) fn problem(
        &mut self,
        path: &str,
        number: u64,
        open: impl FnOnce() -> Option<RunFile>,
    ) -> Option<String> {
        let kind = Kind::of(path)?;
        if self.reports == 0 {
            return None;
        }
        let found = if let Some(known) = self.known.get(&(number, kind)) {
            known.clone()
        } else {
            let found = open().and_then(|file| self.read(kind, file));
            self.known.insert((number, kind), found.clone());
            found
        };
        self.reports -= usize::from(found.is_some());
        found
    }

    fn read(&mut self, kind: Kind, file: RunFile) -> Option<String> {
        let size = file.size();
        if size > MAX_CHECKED_DOCUMENT || size + OPENING > self.budget.0 {
            return None;
        }
        let _turn = self.turns.wait(&mut self.patience)?;
        let mut bytes = Vec::with_capacity(size as usize);
        file.take(size).read_to_end(&mut bytes).ok()?;
        self.check(kind, &bytes)
    }

    fn check(&mut self, kind: Kind, bytes: &[u8]) -> Option<String> {
        let budget = &mut self.budget;
        let found = budget.spend(bytes.len() as u64 + OPENING).and_then(|()| match kind {
            _ if bytes.is_empty() => Fault::problem("the file is empty"),
            Kind::Pdf => pdf::check(bytes, budget),
            Kind::Office(_) if bytes.starts_with(COMPOUND) => Err(Fault::Unchecked),
            Kind::Office(family) => archive::check_office(bytes, family, budget),
            Kind::OpenDocument(media) => archive::check_open(bytes, media, budget),
        });
        match found {
            Err(Fault::Problem(what)) => Some(what),
            Ok(()) | Err(Fault::Unchecked) => None,
        }
    }
}

/// Bounds the number of documents checked at once: several together would need much memory.
#[derive(Debug)]
struct Turns {
    free: Mutex<usize>,
    given_back: Condvar,
}

static TURNS: Turns = Turns::new(MAX_CHECKED_AT_ONCE);

impl Turns {
    const fn new(free: usize) -> Self {
        Self {
            free: Mutex::new(free),
            given_back: Condvar::new(),
        }
    }

    /// Waits for a turn, for at most `patience`, and takes this time from `patience`.
    fn wait(&self, patience: &mut Duration) -> Option<Turn<'_>> {
        let started = Instant::now();
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut free, _) = self
            .given_back
            .wait_timeout_while(free, *patience, |free| *free == 0)
            .unwrap_or_else(PoisonError::into_inner);
        *patience = patience.saturating_sub(started.elapsed());
        *free = free.checked_sub(1)?;
        Some(Turn(self))
    }
}

/// The turn to check a document, which is given back when dropped.
struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.given_back.notify_one();
    }
}

/// Returns what follows the last dot of a name.
fn extension(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// Returns a text that may hold names of the guest's choice as one short line without characters
/// that are invisible or change the direction of writing.
fn shown(text: &str) -> String {
    let is_plain = |c: char| !c.is_control() && c.escape_debug().len() <= 2;
    let plain = |c| if is_plain(c) { c } else { '\u{fffd}' };
    text.chars().take(MAX_DOCUMENT_PROBLEM).map(plain).collect()
}

/// Checks bytes as the document `name`, or as a part of one, `.xml`, for tests and fuzz targets.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn problem_of(name: &str, bytes: &[u8]) -> Option<String> {
    if extension(name) == "xml" {
        return match xml::check(bytes, |_, _| Ok(())) {
            Err(Fault::Problem(what)) => Some(what),
            Ok(()) | Err(Fault::Unchecked) => None,
        };
    }
    Checker::new().check(Kind::of(name)?, bytes)
}

#[cfg(test)]
mod tests;
