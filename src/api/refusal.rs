//! Why a request is rejected.

use std::fmt;

use serde::Serialize;

/// All reasons why a request is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request is refused: {}", join(reasons))]
#[non_exhaustive]
pub struct Refusal {
    /// The reasons. Each concerns one field.
    pub reasons: Vec<Reason>,
}

/// One reason why a request is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Reason {
    /// Field that the reason concerns.
    pub field: Field,
    /// Kind of mistake, for programs.
    pub kind: ReasonKind,
    /// The mistake in words, without the field's name: `60 s, must be from 0.001 to 30 s`.
    pub message: String,
}

/// A field of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Field {
    /// The code.
    Code,
    /// The image to start from.
    Image,
    /// The variables of the code.
    Variables,
    /// The files placed in the workspace.
    Files,
    /// The host directories that the code can read.
    Mounts,
    /// The workspace aliases.
    Aliases,
    /// The current directory.
    Cwd,
    /// The environment variables.
    Env,
    /// The arguments.
    Args,
    /// The limit on wall clock time.
    Timeout,
    /// The limit on memory.
    Memory,
    /// The limit on fuel.
    Fuel,
    /// The limit on each output stream.
    Output,
    /// The limit on bytes in the workspace.
    Workspace,
    /// The limit on files in the workspace.
    MaxFiles,
    /// Deterministic mode.
    Deterministic,
    /// What the code may contain.
    Policy,
    /// The resolution of captured figures.
    FigureDpi,
    /// The tools that the code can call.
    Tools,
    /// The limits on tools.
    ToolLimits,
    /// The answers to deferred tool calls.
    Answers,
    /// The size limit of a typed result.
    TypedBytes,
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReasonKind {
    /// The value is not allowed or out of range.
    OutOfRange,
    /// The value is longer than the limit.
    TooLong,
    /// The value is unusable for the field: a path outside the workspace, or a name with a NUL.
    Invalid,
    /// The value already exists or is reserved by the sandbox.
    Taken,
    /// The value does not exist on this machine.
    NotFound,
    /// The field is set for a session, not for one of its runs.
    FixedForSession,
    /// The value is a host path, and the sender may not name host paths.
    HostPath,
}

impl Field {
    /// Returns the path of the field in a [`Request`](crate::Request), such as `limits.timeout`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Image => "image",
            Self::Variables => "variables",
            Self::Files => "files",
            Self::Mounts => "mounts",
            Self::Aliases => "aliases",
            Self::Cwd => "cwd",
            Self::Env => "env",
            Self::Args => "args",
            Self::Timeout => "limits.timeout",
            Self::Memory => "limits.memory",
            Self::Fuel => "limits.fuel",
            Self::Output => "limits.output",
            Self::Workspace => "limits.workspace",
            Self::MaxFiles => "limits.files",
            Self::Deterministic => "deterministic",
            Self::Policy => "policy",
            Self::FigureDpi => "capture.figure_dpi",
            Self::Tools => "tools",
            Self::ToolLimits => "tool_limits",
            Self::Answers => "answers",
            Self::TypedBytes => "capture.typed_bytes",
        }
    }
}

impl ReasonKind {
    /// Returns the stable code, such as `out_of_range`.
    pub fn code(self) -> &'static str {
        match self {
            Self::OutOfRange => "out_of_range",
            Self::TooLong => "too_long",
            Self::Invalid => "invalid",
            Self::Taken => "taken",
            Self::NotFound => "not_found",
            Self::FixedForSession => "fixed_for_session",
            Self::HostPath => "host_path",
        }
    }
}

impl Refusal {
    /// Fails if `reasons` is not empty.
    pub(crate) fn unless_empty(reasons: Vec<Reason>) -> Result<(), Self> {
        if reasons.is_empty() {
            return Ok(());
        }
        Err(Self { reasons })
    }
}

impl Reason {
    pub(crate) fn new(field: Field, kind: ReasonKind, message: impl Into<String>) -> Self {
        Self {
            field,
            kind,
            message: message.into(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Field {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Serialize for ReasonKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

fn join(reasons: &[Reason]) -> String {
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
