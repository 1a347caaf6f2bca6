//! A short summary of a run, on stderr.

use std::path::{Path, PathBuf};

use belljar::error::WorkspaceError;
use belljar::outcome::{ErrorDetail, ErrorKind, FileEntry, Truncated};
use belljar::value::Value;
use belljar::{Error, Outcome};

use crate::printer::{Printer, Tone};
use crate::text::{count, plain, shorten, size, table};

/// More files than this are only counted.
const MAX_FILES: usize = 20;
/// Longer results are cut.
const MAX_RESULT: usize = 200;

/// What happens to the files of a run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Files<'a> {
    /// This many were copied into this directory.
    Copied(usize, &'a Path),
    /// They stay in the session, which is in this file.
    Kept(&'a Path),
    ThrownAway,
}

impl<'a> Files<'a> {
    /// The result of copying files to `out`.
    pub(super) fn of(
        out: Option<&'a Path>,
        copied: &Result<Option<Vec<PathBuf>>, Error>,
    ) -> Option<Self> {
        let number = match copied {
            Ok(copied) => copied.as_ref()?.len(),
            Err(Error::Workspace(WorkspaceError::Copies { copied, .. })) => copied.len(),
            Err(_) => return None,
        };
        Some(Self::Copied(number, out?))
    }
}

/// Prints results, files and errors.
pub(super) fn print(printer: &Printer, outcome: &Outcome, made: Files<'_>) {
    if let Some(value) = result(outcome) {
        printer.note(&format!("result: {}", shorten(&plain(&value), MAX_RESULT)));
    }
    files(printer, outcome, made);
    cuts(printer, outcome);
    failure(printer, outcome);
}

/// The result as JSON, typed if requested; `None` for a result of `None`.
fn result(outcome: &Outcome) -> Option<String> {
    match &outcome.typed {
        Some(Value::None) => None,
        Some(typed) => serde_json::to_string(typed).ok(),
        None if outcome.result.is_null() => None,
        None => Some(outcome.result.to_string()),
    }
}

fn files(printer: &Printer, outcome: &Outcome, fate: Files<'_>) {
    if outcome.files.is_empty() {
        return;
    }
    let made = count(outcome.files.len() as u64, "file");
    let regular = outcome.files.iter().filter(|file| file.symlink.is_none()).count();
    printer.note(&printer.paint_note(
        Tone::Strong,
        &match fate {
            Files::Copied(copied, dir) if copied < regular => {
                format!("made {made}, {copied} of them copied to {}", dir.display())
            }
            Files::Copied(_, dir) => format!("made {made}, copied to {}", dir.display()),
            Files::Kept(file) => format!("made {made}, kept in {}", file.display()),
            Files::ThrownAway => format!("made {made}, discarded without --out DIR"),
        },
    ));
    let listed = outcome.files.iter().take(MAX_FILES);
    let rows: Vec<[String; 3]> = listed.map(|file| row(file, outcome)).collect();
    for line in table(&rows) {
        printer.note(&format!("  {line}"));
    }
    if let Some(more @ 1..) = outcome.files.len().checked_sub(MAX_FILES) {
        printer.note(&format!("  and {more} more"));
    }
}

/// Path, size, and the kind if it is not an ordinary file.
fn row(file: &FileEntry, outcome: &Outcome) -> [String; 3] {
    let kind = match &file.symlink {
        Some(target) => format!("link to {}", plain(target)),
        None if outcome.plots.iter().any(|plot| plot.path == file.path) => "plot".to_owned(),
        None => String::new(),
    };
    [plain(&file.path), size(file.size), kind]
}

/// Prints what was cut.
pub(crate) fn cuts(printer: &Printer, outcome: &Outcome) {
    for cut in &outcome.truncated {
        let usage = &outcome.usage;
        printer.note(&match cut {
            Truncated::Stdout => output_cut("stdout", usage.stdout_bytes),
            Truncated::Stderr => output_cut("stderr", usage.stderr_bytes),
            Truncated::Result => "the result was cut".to_owned(),
            _ => continue,
        });
    }
}

fn output_cut(name: &str, written: u64) -> String {
    format!("{name} was cut: the code wrote {}; --output-limit keeps more", size(written))
}

/// Prints an error, unless the code's own output has shown it.
pub(crate) fn failure(printer: &Printer, outcome: &Outcome) {
    let Some(error) = &outcome.error else {
        return;
    };
    let detail = outcome.error_detail.as_ref();
    // The traceback on stderr ends with the same words.
    let said = detail.is_some_and(|d| matches!(d.kind, ErrorKind::Exception | ErrorKind::Syntax))
        && !outcome.stderr.is_empty();
    if !said {
        let place = detail.filter(|d| d.violations.is_empty()).and_then(place).unwrap_or_default();
        printer.error(&format!("{}{place}", plain(error)));
    }
    for violation in detail.iter().flat_map(|d| &d.violations) {
        let line = violation.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        printer.note(&format!("  {line}{}", plain(&violation.message)));
    }
    if let Some(hint) = detail.and_then(|d| d.hint.as_deref()) {
        printer.hint(&plain(hint));
    }
}

/// The place in the code.
fn place(detail: &ErrorDetail) -> Option<String> {
    let line = detail.line?;
    let stopped =
        matches!(detail.kind, ErrorKind::Timeout | ErrorKind::Fuel | ErrorKind::Interrupted);
    Some(if stopped {
        format!(" (line {line} was running)")
    } else {
        format!(" (line {line})")
    })
}
