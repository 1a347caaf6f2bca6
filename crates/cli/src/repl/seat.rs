//! The session of a prompt, which is on this machine or on a server.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use belljar::error::SessionError;
use belljar::outcome::FileEntry;
use belljar::request::RunLimits;
use belljar::session::{HistoryEntry, Inspection};
use belljar::{Error, Outcome, Request, Runtime, Session};
use serde::Deserialize;

use super::ReplArgs;
use crate::exit::Usage;
use crate::input::ask_person;
use crate::printer::Printer;
use crate::run::Live;
use crate::session_file::{SessionFile, founding};
use crate::text::plain;
#[cfg(feature = "server")]
use crate::{
    remote::{self, Link, RemoteSession},
    run::Shown,
};

/// Runs the sessions of a prompt: this process or a server.
pub(super) enum Place {
    Here(Runtime),
    #[cfg(feature = "server")]
    Elsewhere(Arc<Link>),
}

/// A session.
#[derive(Clone)]
pub(super) enum Seat {
    Here(Session),
    #[cfg(feature = "server")]
    Elsewhere(Arc<RemoteSession>),
}

/// A past run.
#[derive(Deserialize)]
pub(super) struct PastRun {
    pub execution: u64,
    pub code: String,
    pub success: bool,
    pub wall_ms: f64,
}

impl Place {
    /// The initial session with its file, and the options for each line.
    pub(super) async fn open(
        &self,
        mut request: Request,
        args: &ReplArgs,
        printer: &Arc<Printer>,
    ) -> anyhow::Result<(Option<SessionFile>, Seat, Request)> {
        let runtime = match self {
            Self::Here(runtime) => runtime,
            #[cfg(feature = "server")]
            Self::Elsewhere(link) => {
                let name = args.session.as_deref().map(remote::session_name).transpose()?;
                let (session, is_new) = RemoteSession::open(link, name, &mut request).await?;
                let seat = Seat::Elsewhere(Arc::new(session));
                match name {
                    Some(name) if is_new => printer.note(&format!("new session {name}")),
                    Some(name) => {
                        let runs = seat.execution().await?;
                        printer.note(&format!("{name}: the state after run {runs}"));
                    }
                    None => {}
                }
                return Ok((None, seat, request));
            }
        };
        let Some(path) = args.session.clone() else {
            let session = runtime.session(founding(&mut request)).await?;
            session.validate(&request)?;
            return Ok((None, Seat::Here(session), request));
        };
        let waiting = Arc::clone(printer);
        let claiming = tokio::task::spawn_blocking(move || SessionFile::wait_for(&path, &waiting));
        let file = claiming.await.context("cannot wait on a thread")??;
        let (session, is_restored) = file.open(runtime, &mut request).await?;
        if is_restored {
            let runs = session.execution().await;
            printer.note(&format!("{}: the state after run {runs}", file.path().display()));
        }
        Ok((Some(file), Seat::Here(session), request))
    }

    /// A session from a checkpoint.
    pub(super) async fn restore(&self, path: &Path) -> anyhow::Result<Seat> {
        Ok(match self {
            Self::Here(runtime) => Seat::Here(runtime.restore(path).await?),
            #[cfg(feature = "server")]
            Self::Elsewhere(link) => {
                Seat::Elsewhere(Arc::new(RemoteSession::restore(link, path).await?))
            }
        })
    }
}

impl Seat {
    /// Runs code and shows its output. If `asks`, the person at the prompt answers `input()`.
    pub(super) async fn run(
        &self,
        request: Request,
        live: &Arc<Live>,
        asks: bool,
        printer: &Arc<Printer>,
    ) -> anyhow::Result<Outcome> {
        match self {
            Self::Here(session) => {
                let mut request = request.watch(live.clone());
                if asks {
                    request = ask_person(request, printer);
                }
                Ok(session.run(request).await?)
            }
            #[cfg(feature = "server")]
            Self::Elsewhere(session) => {
                session.run(&request, asks, &Shown::output(live, printer)).await
            }
        }
    }

    /// Interrupts running code. Returns whether there was some.
    pub(super) fn interrupt(&self) -> bool {
        match self {
            Self::Here(session) => session.interrupt(),
            #[cfg(feature = "server")]
            Self::Elsewhere(session) => session.interrupt(),
        }
    }

    /// Its image, as text to show.
    pub(super) fn image(&self) -> String {
        match self {
            Self::Here(session) => plain(&session.info().image),
            #[cfg(feature = "server")]
            Self::Elsewhere(session) => plain(session.image()),
        }
    }

    pub(super) async fn fork(&self) -> anyhow::Result<Self> {
        Ok(match self {
            Self::Here(session) => Self::Here(session.fork().await?),
            #[cfg(feature = "server")]
            Self::Elsewhere(session) => Self::Elsewhere(Arc::new(session.fork().await?)),
        })
    }

    /// Goes back to the state after a run. Errors call it by the name that the user knows.
    pub(super) async fn rewind(&self, execution: u64, name: &str) -> anyhow::Result<()> {
        let no_state =
            |text: String| anyhow::Error::from(Usage::new(text).hint("%history lists the runs"));
        match self {
            Self::Here(session) => match session.rewind(execution).await {
                Err(Error::Session(SessionError::NoState {
                    execution, known, ..
                })) => {
                    let id = name.to_owned();
                    let error = SessionError::NoState {
                        id,
                        execution,
                        known,
                    };
                    Err(no_state(error.to_string()))
                }
                rewound => Ok(rewound?),
            },
            #[cfg(feature = "server")]
            Self::Elsewhere(session) => match session.rewind(execution).await {
                Err(error) if error.has_code("session.no_state") => {
                    Err(no_state(error.to_string().replace(session.id(), name)))
                }
                rewound => Ok(rewound?),
            },
        }
    }

    /// Number of its last run.
    pub(super) async fn execution(&self) -> anyhow::Result<u64> {
        match self {
            Self::Here(session) => Ok(session.execution().await),
            #[cfg(feature = "server")]
            Self::Elsewhere(session) => Ok(session.history::<PastRun>().await?.execution),
        }
    }

    pub(super) async fn history(&self) -> anyhow::Result<Vec<PastRun>> {
        match self {
            Self::Here(session) => {
                Ok(session.history().await?.into_iter().map(PastRun::from).collect())
            }
            #[cfg(feature = "server")]
            Self::Elsewhere(session) => Ok(session.history().await?.runs),
        }
    }

    pub(super) async fn checkpoint(&self, file: &SessionFile) -> anyhow::Result<()> {
        match self {
            Self::Here(session) => file.save(session).await,
            #[cfg(feature = "server")]
            Self::Elsewhere(session) => {
                file.check()?;
                session.checkpoint(file.path()).await
            }
        }
    }

    pub(super) async fn files(&self) -> anyhow::Result<Vec<FileEntry>> {
        match self {
            Self::Here(session) => Ok(session.files().await?),
            #[cfg(feature = "server")]
            Self::Elsewhere(session) => Ok(session.files().await?),
        }
    }

    pub(super) async fn read(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        match self {
            Self::Here(session) => Ok(session.read(path).await?),
            #[cfg(feature = "server")]
            Self::Elsewhere(session) => Ok(session.read(path).await?),
        }
    }

    pub(super) async fn inspect(
        &self,
        name: &str,
        detail: bool,
    ) -> anyhow::Result<Option<Inspection>> {
        match self {
            Self::Here(session) => Ok(session.inspect(name, name.chars().count(), detail).await?),
            #[cfg(feature = "server")]
            Self::Elsewhere(session) => Ok(session.inspect(name, detail).await?),
        }
    }

    /// Names that complete the one at a cursor, and where it begins; `None` if nothing answers.
    pub(super) async fn complete(&self, code: &str, cursor: usize) -> Option<(usize, Vec<String>)> {
        match self {
            Self::Here(session) => {
                let found = session.complete(code, cursor).await.ok()?;
                Some((found.start, found.matches))
            }
            #[cfg(feature = "server")]
            Self::Elsewhere(session) => session.complete(code, cursor).await.ok(),
        }
    }

    /// The limits of its runs. A server does not tell them.
    pub(super) fn bounds(&self) -> Option<RunLimits> {
        match self {
            Self::Here(session) => Some(session.bounds()),
            #[cfg(feature = "server")]
            Self::Elsewhere(_) => None,
        }
    }

    /// Ends it, unless it has a name on a server.
    pub(super) async fn end(&self) {
        match self {
            Self::Here(session) => session.close(),
            #[cfg(feature = "server")]
            Self::Elsewhere(session) => session.end().await,
        }
    }
}

impl From<HistoryEntry> for PastRun {
    fn from(entry: HistoryEntry) -> Self {
        Self {
            execution: entry.execution,
            code: entry.code,
            success: entry.success,
            wall_ms: entry.wall_ms,
        }
    }
}
