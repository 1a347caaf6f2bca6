//! How the command ends: exit status and error messages.

use belljar::Error;
use belljar::error::Blame;
use belljar::request::{Field, Refusal};

use super::printer::{OutputError, Printer};
#[cfg(feature = "server")]
use super::server_error::RemoteError;
use super::text::plain_lines;

/// The exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// It succeeded.
    Success,
    /// The code failed, or a report found something.
    Found,
    /// The request is invalid.
    Usage,
    /// The engine or the machine failed.
    Engine,
    /// The reader of the output has closed it. Ends the command like SIGPIPE.
    Unread,
    /// A signal with this number stopped it.
    Signal(u8),
}

impl Exit {
    pub(super) fn code(self) -> i32 {
        match self {
            Self::Success => 0,
            Self::Found => 1,
            Self::Usage => 2,
            Self::Engine => 3,
            Self::Unread => 128 + 13,
            Self::Signal(number) => 128 + i32::from(number),
        }
    }
}

/// A request that is invalid.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Usage {
    message: String,
    hint: Option<String>,
}

impl Usage {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
        }
    }

    /// Adds advice.
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Prints an error, and returns the exit status.
pub(super) fn report(printer: &Printer, error: &anyhow::Error) -> Exit {
    if error.downcast_ref::<OutputError>().is_some_and(OutputError::is_unread) {
        return Exit::Unread;
    }
    let (exit, hint) = if let Some(usage) = error.downcast_ref::<Usage>() {
        (Exit::Usage, usage.hint.clone())
    } else if let Some(engine) = error.downcast_ref::<Error>() {
        (status(engine.blame()), engine.hint())
    } else {
        remote(error)
    };
    let text = described(error, option);
    // Errors may quote text chosen by a guest or by the author of a checkpoint.
    printer.error(&plain_lines(&text));
    if let Some(hint) = hint {
        printer.hint(&plain_lines(&hint));
    }
    exit
}

/// An error, naming the fields of a refused request by `name` if that gives a name.
pub(super) fn described(error: &anyhow::Error, name: fn(Field) -> Option<&'static str>) -> String {
    if let Some(Error::Refused(refusal)) = error.downcast_ref::<Error>() {
        return refused(refusal, name);
    }
    #[cfg(feature = "server")]
    if let Some(error) = error.downcast_ref::<RemoteError>()
        && let Some(text) = error.refusal(name)
    {
        return text;
    }
    chain(error)
}

/// The exit status and the hint of an error, which may be a server's.
#[cfg(feature = "server")]
fn remote(error: &anyhow::Error) -> (Exit, Option<String>) {
    let Some(error) = error.downcast_ref::<RemoteError>() else {
        return (Exit::Engine, None);
    };
    let callers = [Blame::Caller, Blame::Guest].map(Blame::as_str);
    let exit = match error.blame() {
        Some(blame) if callers.contains(&blame) => Exit::Usage,
        _ => Exit::Engine,
    };
    (exit, error.hint())
}

#[cfg(not(feature = "server"))]
fn remote(_: &anyhow::Error) -> (Exit, Option<String>) {
    (Exit::Engine, None)
}

/// The option for a field, if its name differs from the field's.
pub(super) fn option(field: Field) -> Option<&'static str> {
    Some(match field {
        Field::Timeout => "--timeout",
        Field::Memory => "--memory",
        Field::Fuel => "--fuel",
        Field::Output => "--output-limit",
        Field::Workspace => "--workspace-limit",
        Field::MaxFiles => "--file-limit",
        Field::Deterministic => "--deterministic",
        Field::Image => "--image",
        Field::Mounts => "--mount",
        Field::Aliases => "--alias",
        Field::Cwd => "--cwd",
        Field::Variables => "--set",
        _ => return None,
    })
}

/// Describes a refusal, naming each field by `name` if that gives a name.
pub(super) fn refused(refusal: &Refusal, name: fn(Field) -> Option<&'static str>) -> String {
    let reasons = refusal.reasons.iter().map(|reason| {
        let name = name(reason.field).unwrap_or_else(|| reason.field.as_str());
        format!("{name}: {}", reason.message)
    });
    format!("the request is refused: {}", reasons.collect::<Vec<_>>().join("; "))
}

/// The exit status by cause.
fn status(blame: Blame) -> Exit {
    match blame {
        Blame::Caller | Blame::Guest => Exit::Usage,
        _ => Exit::Engine,
    }
}

/// An error and its causes on one line, without repetitions.
pub(super) fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_was_said_already_is_not_repeated() {
        let error =
            anyhow::anyhow!("no disk").context("cannot write: no disk").context("no result");
        assert_eq!(chain(&error), "no result: cannot write: no disk");
    }
}
