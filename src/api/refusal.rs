//! Why a request cannot be run.

use std::fmt;

use serde::Serialize;

/// Why a request cannot be run; every reason, not the first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request is refused: {}", join(reasons))]
#[non_exhaustive]
pub struct Refusal {
    /// The reasons, each about one field.
    pub reasons: Vec<Reason>,
}

/// One reason for which a request cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Reason {
    /// What it is about.
    pub field: Field,
    /// What is wrong with it, for programs.
    pub kind: ReasonKind,
    /// The same for people, without the field's name: `60 s, must be from 0.001 to 30 s`.
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
    /// The variables that the code finds.
    Variables,
    /// The files placed in the workspace.
    Files,
    /// The host directories that the code can read.
    Mounts,
    /// Other paths of the workspace.
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
    /// The limits on these.
    ToolLimits,
    /// The answers to calls of deferred tools.
    Answers,
    /// The bytes of a typed result.
    TypedBytes,
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReasonKind {
    /// The value is none that the field can have, or lies outside its bounds.
    OutOfRange,
    /// There is more of it than is taken.
    TooLong,
    /// It cannot be what the field is for: a path that leaves the workspace, a name with a NUL.
    Invalid,
    /// It is there already, or belongs to the sandbox.
    Taken,
    /// It is not on this machine.
    NotFound,
    /// It is set for a whole session, and not for one of its runs.
    FixedForSession,
    /// It names a path of the host, which whoever asked may not.
    HostPath,
}

impl Field {
    /// Its name: the path to it in a [`Request`](crate::Request), such as `limits.timeout`.
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
    /// Its stable code, such as `out_of_range`.
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
    /// Fails when there are reasons to.
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
