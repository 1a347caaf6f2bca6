//! Parses the fatal errors that an interpreter prints before it aborts, and the panics of its
//! extensions in Rust.
//!
//! The text is untrusted guest output. It is used only to describe an abort that the host has
//! observed.

use crate::limits::MAX_FATAL_REPORT;

const HEAD: &str = "Fatal Python error: ";
/// Start of frames to remove: those of the runner and its callers.
const OUR_FRAMES: [&str; 2] = ["  File \"<belljar>/", "  File \"<reactor>\""];
const USER_FRAME: &str = "  File \"<string>\", line ";

/// Start of the first line of a panic; the second has the message.
const PANIC: &str = "thread '";

/// A fatal error of the interpreter or a panic, as printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FatalError {
    /// Place in the interpreter or the extension, and reason.
    pub reason: String,
    /// Innermost line of the user's code.
    pub line: Option<u64>,
    /// The whole report, without frames of the runner.
    pub report: String,
}

/// Finds the last fatal error or panic in the output, and removes the runner's frames from it.
pub(crate) fn find(printed: &mut String) -> Option<FatalError> {
    let last = |head| {
        let lines = printed.rmatch_indices(head).map(|(at, _)| at);
        let mut lines = lines.filter(|at| *at == 0 || printed[..*at].ends_with('\n'));
        lines.find(|at| reason(&printed[*at..]).is_some())
    };
    let start = last(HEAD).max(last(PANIC))?;
    let lines = printed[start..].split_inclusive('\n');
    let report: String =
        lines.filter(|line| !OUR_FRAMES.iter().any(|ours| line.starts_with(ours))).collect();
    printed.replace_range(start.., &report);
    let frame = report.lines().find_map(|line| line.strip_prefix(USER_FRAME));
    let digits = frame.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let end = report.floor_char_boundary(MAX_FATAL_REPORT);
    Some(FatalError {
        reason: reason(&report)?,
        line: digits.flatten().and_then(|digits| digits.parse().ok()),
        report: report[..end].to_owned(),
    })
}

/// Returns the reason in a report's first lines.
fn reason(report: &str) -> Option<String> {
    let mut lines = report.lines();
    let first = lines.next()?;
    if let Some(reason) = first.strip_prefix(HEAD) {
        return Some(reason.trim().to_owned());
    }
    let (_, place) = first.strip_prefix(PANIC)?.split_once(" panicked at ")?;
    Some(format!("panic at {place} {}", lines.next()?.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_counts_and_keeps_no_frame_of_ours() {
        let mut printed = String::from(
            "so far\nFatal Python error: printed by the code\n\
             Fatal Python error: _Py_CheckRecursiveCall: Unrecoverable stack overflow\n\
             Python runtime state: initialized\n\n\
             Current thread 0x01 (most recent call first):\n\
             \x20 File \"<string>\", line 7 in f\n\
             \x20 File \"<string>\", line 9 in <module>\n\
             \x20 File \"<belljar>/run/runs.py\", line 130 in _execute\n\
             \x20 File \"<reactor>\", line 295 in turn\n",
        );
        let found = find(&mut printed).unwrap();
        assert_eq!(found.reason, "_Py_CheckRecursiveCall: Unrecoverable stack overflow");
        assert_eq!(found.line, Some(7));
        assert!(printed.starts_with("so far\n") && printed.ends_with("line 9 in <module>\n"));
        assert!(printed.ends_with(&found.report));
    }

    #[test]
    fn a_panic_is_one() {
        let panic = "thread '<unnamed>' (1) panicked at src/lib.rs:16:31:\nindex out of bounds\n\
            note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n";
        let mut printed = format!("Fatal Python error: printed\n\n{panic}");
        let found = find(&mut printed).unwrap();
        assert_eq!(found.reason, "panic at src/lib.rs:16:31: index out of bounds");
        assert_eq!((found.line, found.report.as_str()), (None, panic));
        let mut printed = format!("{panic}Fatal Python error: later\nthread 'main' ends\n");
        assert_eq!(find(&mut printed).unwrap().reason, "later");
    }

    #[test]
    fn what_is_no_line_of_its_own_is_none() {
        for text in
            ["", "x Fatal Python error: y\n", "fatal Python error: z", "thread 'a' panicked at b:"]
        {
            let mut printed = text.to_owned();
            assert_eq!(find(&mut printed), None);
            assert_eq!(printed, text);
        }
        let mut bare = String::from("Fatal Python error: ");
        assert_eq!(find(&mut bare).unwrap().reason, "");
    }
}
