//! Messages of the prompt about runs.

use std::path::PathBuf;
use std::time::Duration;

use belljar::request::RunLimits;
use belljar::session::Inspection;
use belljar::{Outcome, RequestLimits};

use super::seat::PastRun;
use crate::printer::Printer;
use crate::run;
use crate::text::{duration, plain, plain_lines, shorten, size};

/// More files than this are only counted.
const MAX_FILES: usize = 10;
/// Maximum number of characters of code in the history.
const MAX_CODE: usize = 60;

/// Shows what a run's own output does not say.
pub(super) fn outcome(printer: &Printer, outcome: &Outcome) {
    run::cuts(printer, outcome);
    run::failure(printer, outcome);
    let is_figure = |path: &str| outcome.plots.iter().any(|plot| plot.path == path);
    let made: Vec<String> = outcome
        .files
        .iter()
        .filter(|file| !is_figure(&file.path))
        .map(|file| format!("{} ({})", plain(&file.path), size(file.size)))
        .collect();
    match made.len() {
        0 => {}
        1..=MAX_FILES => printer.note(&format!("made {}", made.join(", "))),
        number => printer.note(&format!("made {number} files; %files lists them")),
    }
    if let Some(session) = outcome.session.as_ref().filter(|s| s.interpreter_restarted) {
        let reason = session.restart_reason.as_deref().unwrap_or("it ended");
        printer.note(&format!(
            "the interpreter was lost ({}); the session is back in its previous state",
            plain(reason)
        ));
        if session.interpreter_crashed {
            printer.note("it could not be restored; the next line tries again");
        }
    }
}

/// Shows where figures were saved.
pub(super) fn figures(printer: &Printer, saved: &[PathBuf]) {
    for path in saved {
        printer.note(&format!("figure {}", plain(&path.display().to_string())));
    }
}

/// How long a run took.
pub(super) fn time(outcome: &Outcome) -> String {
    let usage = &outcome.usage;
    format!("{}, {} fuel", milliseconds(usage.wall_ms), grouped(usage.fuel))
}

/// A run's number, result, time, and code.
pub(super) fn entry(entry: &PastRun) -> [String; 4] {
    let mut lines = entry.code.lines().filter(|line| !line.trim().is_empty());
    let mut code = plain(&shorten(lines.next().unwrap_or(""), MAX_CODE));
    if lines.next().is_some() {
        code.push_str(" …");
    }
    let went = if entry.success { "good" } else { "failed" };
    [entry.execution.to_string(), went.to_owned(), milliseconds(entry.wall_ms), code]
}

/// Describes an object: its signature and documentation, or else its value; and its source if
/// requested.
pub(super) fn inspection(found: &Inspection) -> String {
    let (called, said) = match &found.signature {
        Some(signature) => (signature, found.doc.as_deref().unwrap_or_default()),
        None => (&found.name, found.text.as_str()),
    };
    let mut text = format!("{}: {}", plain(called), plain(&found.class));
    for part in [Some(said), found.source.as_deref()].into_iter().flatten() {
        if !part.trim().is_empty() {
            text.push('\n');
            text.push_str(&plain_lines(part.trim_end()));
        }
    }
    text
}

/// The limits of a run with the limits `asked`, in a session with these `bounds`, unless they are
/// a server's.
pub(super) fn limits(bounds: Option<&RunLimits>, asked: &RequestLimits) -> Vec<[String; 3]> {
    let row = |name: &str, value: Option<String>, of: &str| {
        [
            name.to_owned(),
            value.unwrap_or_else(|| "as the server sets it".to_owned()),
            of.to_owned(),
        ]
    };
    let timeout = asked.timeout.or(bounds.map(|bounds| bounds.timeout));
    let fuel = match (asked.fuel, bounds) {
        (Some(fuel), _) => Some(grouped(fuel)),
        (None, Some(bounds)) => {
            Some(bounds.fuel.map_or_else(|| "limited by time alone".to_owned(), grouped))
        }
        (None, None) => None,
    };
    let output = asked.output.or(bounds.map(|bounds| bounds.output));
    vec![
        row("time", timeout.map(duration), "each run"),
        row("fuel", fuel, "each run"),
        row("output", output.map(size), "each run, of each stream"),
        row("memory", bounds.map(|bounds| size(bounds.memory)), "the session, above its image"),
        row("workspace", bounds.map(|bounds| size(bounds.workspace)), "the session"),
        row("files", bounds.map(|bounds| grouped(bounds.files)), "the session"),
    ]
}

fn milliseconds(milliseconds: f64) -> String {
    duration(Duration::try_from_secs_f64(milliseconds / 1000.0).unwrap_or_default())
}

/// A number with thousands separators.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_kept_apart() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
