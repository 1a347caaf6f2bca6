//! Decides how a run ended, from the host's observations and the guest's claims.
//!
//! Observations take precedence: if a guest was stopped, trapped or exited, its frames cannot
//! change that.

use std::time::Duration;

use wasmtime::Trap;

use crate::api::outcome::{ErrorDetail, ErrorKind};
use crate::api::policy::seconds_text;
use crate::guest::fatal::FatalError;
use crate::guest::{Status, StatusKind, Transcript};
use crate::limits::MAX_ERROR;
use crate::sandbox::{Driven, Ended, StopReason};

/// Fixed error text for empty code.
pub(crate) const NO_CODE: &str = "No code provided.";
/// Fixed error text for the memory limit.
const NO_MEMORY: &str = "Memory limit exceeded during code execution";

/// Fixed error text for a run interrupted by its caller.
const INTERRUPTED: &str = "Code execution was interrupted";

/// The failure of a run.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub error: String,
    pub detail: ErrorDetail,
}

/// Judges a run with a time limit of `timeout` seconds; `None` for success.
pub(crate) fn judge(
    driven: &Driven,
    transcript: &Transcript,
    fatal: Option<FatalError>,
    memory_refused: bool,
    timeout: &str,
) -> Option<Failure> {
    // Code that ended in time is judged by its own result, even if the time ran out while figures
    // and values were collected.
    let harvested = transcript.in_time && transcript.stopped_in_harvest && transcript.ended;
    if let Some(reason) = driven.stopped.filter(|_| !harvested) {
        return Some(stopped(reason, transcript, timeout));
    }
    // If the interpreter crashes on exit, the earlier failure of the code is still reported.
    let status = transcript.status.as_ref().filter(|_| transcript.in_time && !transcript.forged);
    if let (Ended::Trapped(_) | Ended::Exited(_) | Ended::Missing(_), Some(status)) =
        (&driven.ended, status)
        && let Some(failure) = of_status(status)
    {
        return Some(failure);
    }
    match &driven.ended {
        Ended::Returned(_) => returned(transcript),
        Ended::Trapped(_) if memory_refused => Some(memory(None)),
        Ended::Trapped(Trap::StackOverflow) => {
            Some(crash("StackOverflow", "the interpreter ran out of stack"))
        }
        Ended::Trapped(Trap::UnreachableCodeReached) => Some(gave_up(fatal)),
        Ended::Trapped(trap) => Some(crash("Trap", &format!("the interpreter trapped: {trap}"))),
        Ended::Exited(status) => Some(crash(
            "ProcessExit",
            &format!("the interpreter was ended with status {status} before the code had finished"),
        )),
        Ended::Missing(missing) => Some(crash("MissingCode", &missing.to_string())),
        Ended::Failed(error) => Some(crash("HostCall", &format!("{error:#}"))),
        // Only a guest that was told to stop is stopped.
        Ended::Stopped => Some(crash("Stopped", "the interpreter was stopped")),
        Ended::Overran => {
            Some(crash("LongLoop", "a loop of compiled code ran for too long without a pause"))
        }
    }
}

/// The failure of empty code.
pub(crate) fn no_code() -> Failure {
    Failure {
        error: NO_CODE.into(),
        detail: detail(ErrorKind::Syntax, "EmptyCode", NO_CODE),
    }
}

/// The failure of a run that was interrupted before it started.
pub(crate) fn interrupted() -> Failure {
    Failure {
        error: INTERRUPTED.into(),
        detail: detail(ErrorKind::Interrupted, "Interrupted", INTERRUPTED),
    }
}

/// The failure of a run in a session that has used all its fuel.
pub(crate) fn session_fuel(total: u64) -> Failure {
    of_session(ErrorKind::Fuel, "Fuel", &format!("The session has used all of its fuel, {total}"))
}

/// The failure of a run in a session that has exceeded its lifetime.
pub(crate) fn session_lifetime(limit: Duration) -> Failure {
    let seconds = seconds_text(limit);
    of_session(
        ErrorKind::Timeout,
        "Lifetime",
        &format!("The session's lifetime of {seconds} seconds is over"),
    )
}

/// The failure of a run in a session that was idle for too long.
pub(crate) fn session_idle(limit: Duration) -> Failure {
    let seconds = seconds_text(limit);
    of_session(
        ErrorKind::Timeout,
        "Idle",
        &format!("The session was idle for longer than {seconds} seconds"),
    )
}

fn of_session(kind: ErrorKind, type_: &str, message: &str) -> Failure {
    Failure {
        error: message.to_owned(),
        detail: detail(kind, type_, message),
    }
}

/// The failure of a run whose replay differed from its first attempt.
pub(crate) fn differs(difference: &str) -> Failure {
    crash("ReplayDiffers", difference)
}

fn stopped(reason: StopReason, transcript: &Transcript, timeout: &str) -> Failure {
    let (kind, type_, error) = match reason {
        StopReason::Timeout => (
            ErrorKind::Timeout,
            "Timeout",
            format!("Code execution timed out after {timeout} seconds"),
        ),
        StopReason::Fuel => (ErrorKind::Fuel, "Fuel", "Code execution ran out of fuel".into()),
        StopReason::Output => {
            (ErrorKind::Output, "Output", "Code execution printed far more than its limit".into())
        }
        StopReason::Waiting => {
            (ErrorKind::Waiting, "Waiting", "Code execution waits for the answer of a tool".into())
        }
        StopReason::Interrupted => (ErrorKind::Interrupted, "Interrupted", INTERRUPTED.into()),
    };
    let mut detail = detail(kind, type_, &error);
    detail.line = transcript.interrupted_line;
    let status = transcript.status.as_ref();
    if let Some(status) = status.filter(|s| s.status == StatusKind::Interrupted) {
        detail.line = status.line;
        detail.traceback.clone_from(&status.traceback);
    }
    Failure { error, detail }
}

fn returned(transcript: &Transcript) -> Option<Failure> {
    if transcript.forged {
        return Some(crash(
            "ForgedReply",
            "something other than the runner spoke to the host in its name",
        ));
    }
    match transcript.status.as_ref().filter(|_| transcript.ended) {
        Some(status) => of_status(status),
        None => Some(crash("NoReply", "the interpreter came back without an answer")),
    }
}

/// Returns the failure of the user's code, as reported by the runner.
fn of_status(status: &Status) -> Option<Failure> {
    let kind = match status.status {
        StatusKind::Ok => return None,
        StatusKind::Exit if matches!(status.exit_code, None | Some(0)) => return None,
        StatusKind::Exit => ErrorKind::Exit,
        StatusKind::Memory => return Some(memory(Some(status))),
        StatusKind::Syntax => ErrorKind::Syntax,
        StatusKind::Policy => ErrorKind::Policy,
        // No interrupt was requested: the code raised the exception itself.
        StatusKind::Exception | StatusKind::Interrupted => ErrorKind::Exception,
    };
    let type_ = status.type_.as_deref().unwrap_or("Exception");
    let message = status.message.as_deref().unwrap_or_default();
    let mut detail = from_status(kind, type_, message, status);
    detail.exit_status = status.exit_code.filter(|_| kind == ErrorKind::Exit);
    Some(Failure {
        error: one_line(type_, message),
        detail,
    })
}

fn memory(status: Option<&Status>) -> Failure {
    let detail = match status {
        Some(status) => from_status(ErrorKind::Memory, "MemoryError", NO_MEMORY, status),
        None => detail(ErrorKind::Memory, "MemoryError", NO_MEMORY),
    };
    Failure {
        error: NO_MEMORY.into(),
        detail,
    }
}

fn crash(type_: &str, message: &str) -> Failure {
    Failure {
        error: one_line(type_, message),
        detail: detail(ErrorKind::Crash, type_, message),
    }
}

/// Returns the failure of an interpreter that aborted, with the reason it printed.
fn gave_up(fatal: Option<FatalError>) -> Failure {
    let Some(fatal) = fatal.filter(|fatal| !fatal.reason.is_empty()) else {
        return crash("Trap", "the interpreter aborted, and gave no reason");
    };
    let mut failure = crash("FatalError", &format!("the interpreter gave up: {}", fatal.reason));
    failure.detail.line = fatal.line;
    failure.detail.traceback = Some(fatal.report);
    failure
}

fn from_status(kind: ErrorKind, type_: &str, message: &str, status: &Status) -> ErrorDetail {
    ErrorDetail {
        line: status.line,
        traceback: status.traceback.clone(),
        hint: status.hint.clone(),
        violations: status.violations.clone(),
        ..detail(kind, type_, message)
    }
}

fn detail(kind: ErrorKind, type_: &str, message: &str) -> ErrorDetail {
    ErrorDetail {
        kind,
        type_: type_.to_owned(),
        message: message.to_owned(),
        line: None,
        traceback: None,
        exit_status: None,
        hint: None,
        violations: Vec::new(),
    }
}

/// Formats `Type: message` on one line, without terminal control characters.
fn one_line(type_: &str, message: &str) -> String {
    let text = if message.trim().is_empty() {
        type_.to_owned()
    } else {
        format!("{type_}: {message}")
    };
    let words = text.split(|c: char| c.is_control() || c == '\u{2028}' || c == '\u{2029}');
    let words: Vec<&str> = words.map(str::trim).filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(MAX_ERROR).collect()
}
