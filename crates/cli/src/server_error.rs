//! Why a server did not do what it was asked for.

use belljar::request::Field;
use belljar_code_mode::ConnectorError;
use serde::Deserialize;

/// A failure of the server, or of the connection to it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoteError {
    #[error("{url} cannot be reached")]
    Unreachable {
        url: String,
        #[source]
        source: hyper_util::client::legacy::Error,
    },
    #[error("the connection to {url} was lost")]
    Lost {
        url: String,
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    #[error("{url} did not answer in time")]
    Slow { url: String },
    #[error("{url} answered {status}, and not as a belljar server does")]
    Strange { url: String, status: u16 },
    #[error("{url} sent more than {most} bytes")]
    TooLong { url: String, most: u64 },
    #[error("{url} cannot be reached safely")]
    Connector {
        url: String,
        #[source]
        source: ConnectorError,
    },
    #[error("the connection to {url} was lost, and the server does not know the run")]
    Forgotten { url: String },
    #[error("{0}")]
    Refused(Problem),
}

/// A server's reason for refusing a request.
#[derive(Debug, Deserialize)]
pub(crate) struct Problem {
    detail: String,
    pub(crate) code: String,
    blame: String,
    hint: Option<String>,
    #[serde(default)]
    reasons: Vec<Reason>,
}

#[derive(Debug, Deserialize)]
struct Reason {
    field: String,
    message: String,
}

/// Fields for which options and keys have other names.
const NAMED: [Field; 12] = [
    Field::Timeout,
    Field::Memory,
    Field::Fuel,
    Field::Output,
    Field::Workspace,
    Field::MaxFiles,
    Field::Deterministic,
    Field::Image,
    Field::Mounts,
    Field::Aliases,
    Field::Cwd,
    Field::Variables,
];

impl RemoteError {
    /// Whether the same request may have another end.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::Unreachable { .. } | Self::Slow { .. })
    }

    /// Whether the server refuses with this code.
    pub(crate) fn has_code(&self, code: &str) -> bool {
        matches!(self, Self::Refused(problem) if problem.code == code)
    }

    /// Who is responsible, for a request that the server refuses.
    pub(crate) fn blame(&self) -> Option<&str> {
        match self {
            Self::Refused(problem) => Some(&problem.blame),
            _ => None,
        }
    }

    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unreachable { .. } => "start it with belljar serve, or check the URL".to_owned(),
            Self::Forgotten { .. } => {
                "it may have run: look at the session before you run it again".to_owned()
            }
            Self::Refused(problem) if problem.code == "no_key" => {
                "set BELLJAR_KEY to a key of the server; belljar serve printed one, or was given \
                 a file of them"
                    .to_owned()
            }
            Self::Refused(problem) => problem.hint.clone()?,
            _ => return None,
        })
    }

    /// The refusal of a request, naming each field by `name` if that gives a name.
    pub(crate) fn refusal(&self, name: fn(Field) -> Option<&'static str>) -> Option<String> {
        let Self::Refused(problem) = self else {
            return None;
        };
        if problem.reasons.is_empty() {
            return None;
        }
        let reasons = problem.reasons.iter().map(|reason| {
            let field = NAMED.into_iter().find(|field| field.as_str() == reason.field);
            let field = field.and_then(name).unwrap_or(&reason.field);
            format!("{field}: {}", reason.message)
        });
        Some(format!("the request is refused: {}", reasons.collect::<Vec<_>>().join("; ")))
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.detail)
    }
}
