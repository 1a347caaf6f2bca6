//! How the command ends: its exit status, and what it says about a failure.

use std::io;

use belljar::image::ImageError;
use belljar::{ArtifactError, BakeError, Error, Refusal, SessionError, WorkspaceError};

use super::printer::{OutputError, Printer};
use super::setup::BUILT_IN;
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
        (status(engine), engine.hint())
    } else {
        (Exit::Engine, None)
    };
    let text = match error.downcast_ref::<Error>() {
        Some(Error::Refused(refusal)) => refused(refusal, &OPTIONS),
        _ => chain(error),
    };
    // An error may name what a guest, or the author of a checkpoint, has chosen.
    printer.error(&plain_lines(&text));
    if let Some(hint) = hint {
        printer.hint(&plain_lines(&hint));
    }
    exit
}

/// What the library calls the parts of a request, and the options that ask for them.
pub(super) const OPTIONS: [(&str, &str); 9] = [
    ("limits.timeout", "--timeout"),
    ("limits.memory", "--memory"),
    ("limits.fuel", "--fuel"),
    ("limits.output", "--output-limit"),
    ("limits.workspace", "--workspace-limit"),
    ("limits.files", "--file-limit"),
    ("deterministic", "--deterministic"),
    ("image", "--image"),
    ("mounts", "--mount"),
];

/// A refusal whose reasons name what was written.
pub(super) fn refused(refusal: &Refusal, names: &[(&str, &str)]) -> String {
    let mut refusal = refusal.clone();
    for reason in &mut refusal.reasons {
        let Some((field, rest)) = reason.split_once(": ") else {
            continue;
        };
        if let Some((_, name)) = names.iter().find(|(known, _)| *known == field) {
            *reason = format!("{name}: {rest}");
        }
    }
    refusal.to_string()
}

/// Whose fault it is that the engine did not do it.
fn status(error: &Error) -> Exit {
    let asked_wrongly = match error {
        Error::Refused(_)
        | Error::Workspace(WorkspaceError::Input { .. })
        | Error::NoSuchFile { .. }
        | Error::Artifact(ArtifactError::Wheel { .. } | ArtifactError::OtherWheel { .. })
        | Error::Bake(BakeError::Recipe(_)) => true,
        // A guest has chosen the names, and the user the directory.
        Error::Workspace(WorkspaceError::Copies { failures, .. }) => {
            failures.iter().all(|(_, error)| error.kind() != io::ErrorKind::StorageFull)
        }
        // The recipes of the built-in images are the engine's own.
        Error::Bake(BakeError::RecipeCode { image, .. } | BakeError::OpenFiles { image, .. }) => {
            !BUILT_IN.contains(&image.as_str())
        }
        Error::Session(session) => match session {
            SessionError::Io { action, .. } => *action != "write",
            _ => true,
        },
        Error::Image(image) | Error::Bake(BakeError::Image(image)) => {
            matches!(image, ImageError::Unknown { .. } | ImageError::BuiltIn { .. })
        }
        _ => false,
    };
    if asked_wrongly {
        Exit::Usage
    } else {
        Exit::Engine
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
