//! How the command ends: its exit status, and what it says about a failure.

use belljar::{Blame, Error, Field, Refusal};

use super::printer::{OutputError, Printer};
use super::text::plain_lines;

/// The exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// It was done.
    Success,
    /// The code failed, or a report found something.
    Found,
    /// What was asked for cannot be done as asked.
    Usage,
    /// The engine, or this machine, failed.
    Engine,
    /// Nobody reads the output any more, like a program that SIGPIPE ends.
    Unread,
    /// A signal of this number ended it.
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

/// Something was asked for that cannot be done as asked.
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

    /// Says what to do instead.
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Tells the user about a failure, and with which status it ends the command.
pub(super) fn report(printer: &Printer, error: &anyhow::Error) -> Exit {
    if error.downcast_ref::<OutputError>().is_some_and(OutputError::is_unread) {
        return Exit::Unread;
    }
    let (exit, hint) = if let Some(usage) = error.downcast_ref::<Usage>() {
        (Exit::Usage, usage.hint.clone())
    } else if let Some(engine) = error.downcast_ref::<Error>() {
        (status(engine.blame()), engine.hint())
    } else {
        (Exit::Engine, None)
    };
    let text = match error.downcast_ref::<Error>() {
        Some(Error::Refused(refusal)) => refused(refusal, option),
        _ => chain(error),
    };
    // An error may name what a guest, or the author of a checkpoint, has chosen.
    printer.error(&plain_lines(&text));
    if let Some(hint) = hint {
        printer.hint(&plain_lines(&hint));
    }
    exit
}

/// The option that asks for a field, where it has another name.
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

/// A refusal in which each reason names what was written, as `name` has it, or else the field.
pub(super) fn refused(refusal: &Refusal, name: fn(Field) -> Option<&'static str>) -> String {
    let reasons = refusal.reasons.iter().map(|reason| {
        let name = name(reason.field).unwrap_or_else(|| reason.field.as_str());
        format!("{name}: {}", reason.message)
    });
    format!("the request is refused: {}", reasons.collect::<Vec<_>>().join("; "))
}

/// The exit status for whose fault it is.
fn status(blame: Blame) -> Exit {
    match blame {
        Blame::Caller | Blame::Guest => Exit::Usage,
        _ => Exit::Engine,
    }
}

/// An error and its causes in one line, without saying anything twice.
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
