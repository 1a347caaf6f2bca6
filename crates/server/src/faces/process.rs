//! Presents a run as a process with files, limits and standard input, for code runner protocols.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use belljar::Outcome;
use belljar::outcome::{ErrorKind, Truncated};
use belljar::request::RunLimits;

/// How a run ended, in terms of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Exited with this code.
    Exited(i32),
    /// Exceeded its time or fuel limit.
    OutOfTime,
    /// Exceeded its memory limit.
    OutOfMemory,
    /// Exceeded its output limit.
    TooMuchOutput,
    /// Was interrupted.
    Interrupted,
    /// The interpreter crashed.
    Crashed,
}

impl Ending {
    /// Classifies an outcome.
    pub(crate) fn of(outcome: &Outcome) -> Self {
        let Some(detail) = &outcome.error_detail else {
            return Self::Exited(0);
        };
        match detail.kind {
            // The parent of a process sees eight bits of its status.
            ErrorKind::Exit => Self::Exited((detail.exit_status.unwrap_or(1) & 0xff) as i32),
            ErrorKind::Timeout | ErrorKind::Fuel => Self::OutOfTime,
            ErrorKind::Memory => Self::OutOfMemory,
            ErrorKind::Output => Self::TooMuchOutput,
            ErrorKind::Interrupted => Self::Interrupted,
            ErrorKind::Crash => Self::Crashed,
            _ => Self::Exited(1),
        }
    }

    /// The signal that ends a process in this way: number and name.
    pub(crate) fn signal(self) -> Option<(i32, &'static str)> {
        match self {
            Self::Exited(_) => None,
            Self::OutOfTime | Self::OutOfMemory | Self::TooMuchOutput => Some((9, "SIGKILL")),
            Self::Interrupted => Some((2, "SIGINT")),
            Self::Crashed => Some((6, "SIGABRT")),
        }
    }

    /// The return code as in Python's `subprocess`: negative for a signal.
    pub(crate) fn return_code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            other => other.signal().map_or(1, |(number, _)| -number),
        }
    }
}

/// Standard error of the code, followed by the reason why it was stopped if there is no traceback.
pub(crate) fn explained(outcome: &Outcome) -> String {
    let mut text = outcome.stderr.clone();
    let Some(detail) = &outcome.error_detail else {
        return text;
    };
    let mut line = |what: &str| {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(what);
        text.push('\n');
    };
    let has_traceback = matches!(detail.kind, ErrorKind::Exception | ErrorKind::Syntax);
    if let (false, Some(error)) = (has_traceback || detail.kind == ErrorKind::Exit, &outcome.error)
    {
        line(error);
    }
    if let Some(hint) = &detail.hint {
        line(hint);
    }
    for (stream, name) in [(Truncated::Stdout, "stdout"), (Truncated::Stderr, "stderr")] {
        if outcome.truncated.contains(&stream) {
            line(&format!("{name} exceeded its limit; the rest is omitted"));
        }
    }
    text
}

/// Clamps a time limit in seconds to the runtime's range; `None` if it is not positive.
pub(crate) fn timeout(seconds: f64, ceilings: &RunLimits) -> Option<Duration> {
    if seconds.is_nan() || seconds <= 0.0 {
        return None;
    }
    let asked = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    Some(asked.clamp(MIN_TIMEOUT, ceilings.timeout))
}

/// Clamps a memory limit in bytes to the runtime's range; `None` if it is not positive.
pub(crate) fn memory(bytes: i64, ceilings: &RunLimits) -> Option<u64> {
    let bytes = u64::try_from(bytes).ok().filter(|bytes| *bytes > 0)?;
    Some(bytes.clamp(MIN_MEMORY, ceilings.memory))
}

/// Minimum limits of a run.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);
const MIN_MEMORY: u64 = 1 << 20;

/// Converts a client's path to a workspace path. It may be relative, or absolute under one of
/// `roots`.
pub(crate) fn workspace_path(path: &str, roots: &[&str]) -> Option<String> {
    let under = |root: &&str| {
        let rest = path.strip_prefix(*root)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    };
    let relative = match roots.iter().find_map(under) {
        Some(rest) => rest,
        None if path.starts_with('/') => return None,
        None => path,
    };
    let parts: Vec<&str> = relative.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let is_inside = !parts.contains(&"..") && !relative.contains(['\0', '\\']);
    (is_inside && !parts.is_empty()).then(|| parts.join("/"))
}

/// Decodes base64 with or without padding, ignoring line breaks as in MIME.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let whole: String;
    let text = if text.contains(['\n', '\r']) {
        whole = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
        &whole
    } else {
        text
    };
    let engine = if text.ends_with('=') {
        &STANDARD
    } else {
        &STANDARD_NO_PAD
    };
    engine.decode(text).ok()
}

/// Encodes bytes as base64.
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_the_workspaces_own_or_none() {
        let roots = ["/mnt/data", "/workspace"];
        for (path, meant) in [
            ("a.txt", "a.txt"),
            ("./a.txt", "a.txt"),
            ("dir//a.txt", "dir/a.txt"),
            ("/mnt/data/a.txt", "a.txt"),
            ("/workspace/dir/a.txt", "dir/a.txt"),
        ] {
            assert_eq!(workspace_path(path, &roots).as_deref(), Some(meant), "{path}");
        }
        for path in [
            "",
            ".",
            "/",
            "/etc/passwd",
            "/mnt/data",
            "/mnt/database/a",
            "../a",
            "a/../../b",
            "/mnt/data/../a",
            "a\0b",
            "a\\b",
        ] {
            assert_eq!(workspace_path(path, &roots), None, "{path:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_asked_for_the_path_stays_inside(path in "[a./\\\\\0 mnt/data]{0,24}") {
            if let Some(path) = workspace_path(&path, &["/mnt/data"]) {
                let is_plain = |part: &str| !matches!(part, "" | "." | "..");
                assert!(path.split('/').all(is_plain), "{path:?}");
                assert!(!path.contains(['\0', '\\']), "{path:?}");
            }
        }

        #[test]
        fn bytes_come_back_from_base64(bytes: Vec<u8>, text: String) {
            assert_eq!(from_base64(&to_base64(&bytes)), Some(bytes));
            let _ = from_base64(&text);
        }

        #[test]
        fn limits_are_within_their_bounds(seconds: f64, bytes: i64) {
            let ceilings = RunLimits::CEILINGS;
            assert!(timeout(seconds, &ceilings).is_none_or(|t| t <= ceilings.timeout && !t.is_zero()));
            assert!(memory(bytes, &ceilings).is_none_or(|m| m <= ceilings.memory && m > 0));
        }
    }

    #[test]
    fn base64_comes_with_and_without_padding_and_in_lines() {
        for text in ["aGVsbG8=", "aGVsbG8", "aGVs\nbG8=\r\n"] {
            assert_eq!(from_base64(text).as_deref(), Some(&b"hello"[..]), "{text:?}");
        }
        for text in ["aGVsbG8==", "a", "aGV sbG8=", "_-8=", "=", "aGVsbG8=aGVs"] {
            assert_eq!(from_base64(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_limit_is_as_near_to_what_was_asked_as_it_may() {
        let ceilings = RunLimits::CEILINGS.timeout(Duration::from_secs(30)).memory(1 << 30);
        for (asked, given) in [
            (10.0, Some(Duration::from_secs(10))),
            (1e300, Some(Duration::from_secs(30))),
            (f64::INFINITY, Some(Duration::from_secs(30))),
            (1e-300, Some(Duration::from_millis(1))),
            (0.0, None),
            (-1.0, None),
            (f64::NAN, None),
        ] {
            assert_eq!(timeout(asked, &ceilings), given, "{asked}");
        }
        assert_eq!(memory(-1, &ceilings), None);
        assert_eq!(memory(1, &ceilings), Some(1 << 20));
        assert_eq!(memory(i64::MAX, &ceilings), Some(1 << 30));
    }
}
