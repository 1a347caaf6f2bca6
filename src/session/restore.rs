//! Options for restoring a session from a checkpoint.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::clock::Times;
use super::lease::LeaseEnd;
use super::options::SessionLimits;
use crate::api::request::{Mount, Policy};
use crate::api::setters::setters;
use crate::api::tool::Tool;
use crate::store::Store;

/// A checkpoint, and the settings of the restored session that it does not contain.
///
/// ```no_run
/// # async fn example(runtime: belljar::Runtime) -> Result<(), Box<dyn std::error::Error>> {
/// use belljar::session::RestoreOptions;
///
/// let session = runtime.restore("session.belljar").await?;
/// let received = std::net::TcpStream::connect("10.0.0.7:9000")?;
/// let options = RestoreOptions::reader(received).id(session.id()).mount("/srv/data", "/data");
/// session.close();
/// let session = runtime.restore(options).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RestoreOptions {
    pub(super) from: Origin,
    pub(super) mounts: Vec<Mount>,
    pub(super) id: Option<String>,
    pub(super) client: Option<String>,
    pub(super) tools: Vec<Tool>,
    pub(super) limits: SessionLimits,
    pub(super) policy: Option<Policy>,
    pub(super) lease: Option<(Duration, LeaseEnd)>,
    pub(super) told: Times,
}

/// Source of a checkpoint.
pub(super) enum Origin {
    File(PathBuf),
    Reader(Box<dyn Read + Send>),
    Stored(Arc<dyn Store>, String),
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Reader(_) => f.write_str("Reader"),
            Self::Stored(_, key) => f.debug_tuple("Stored").field(key).finish(),
        }
    }
}

impl RestoreOptions {
    /// Restores from a file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::of(Origin::File(path.into()))
    }

    /// Restores from a reader, which is read to its end. The checkpoint is first read into a file
    /// on a blocking thread, up to the limit on restored sessions.
    pub fn reader(reader: impl Read + Send + 'static) -> Self {
        Self::of(Origin::Reader(Box::new(reader)))
    }

    /// Restores the session that [`Session::save`](crate::Session::save) wrote to `store` under
    /// `key`.
    pub fn stored(store: Arc<dyn Store>, key: impl Into<String>) -> Self {
        Self::of(Origin::Stored(store, key.into()))
    }

    fn of(from: Origin) -> Self {
        Self {
            from,
            mounts: Vec::new(),
            id: None,
            client: None,
            tools: Vec::new(),
            limits: SessionLimits::default(),
            policy: None,
            lease: None,
            told: Times::default(),
        }
    }

    /// Mounts a host directory where the session expects one. The checkpoint does not choose the
    /// directory.
    #[must_use]
    pub fn mount(mut self, host: impl Into<PathBuf>, guest: impl Into<String>) -> Self {
        self.mounts.push(Mount::new(host, guest));
        self
    }

    /// Sets the session's id, for example its previous id, instead of a random one: 1 to 64
    /// letters, digits, `-` and `_`. The id must be free. A checkpoint does not contain the id,
    /// because its author could choose another session's id.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Lets the code of every run call a tool, such as the session's previous tools: checkpoints
    /// contain no functions.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Closes or suspends the session after `duration` from its restoration, like
    /// [`SessionOptions::lease`](crate::SessionOptions::lease).
    #[must_use]
    pub fn lease(mut self, duration: Duration, then: LeaseEnd) -> Self {
        self.lease = Some((duration, then));
        self
    }

    /// Sets the session's age and idle time from its record. Longer times in the checkpoint take
    /// precedence.
    #[must_use]
    pub(crate) fn times(mut self, told: Times) -> Self {
        self.told = told;
        self
    }

    /// Makes this the default session of a client.
    #[must_use]
    pub fn client(mut self, client: impl Into<String>) -> Self {
        self.client = Some(client.into());
        self
    }
}

setters!(RestoreOptions {
    /// Replaces all mounts of the session.
    mounts: Vec<Mount>;
    /// Limits the session. For each limit, the smaller of this value and the checkpoint's applies.
    /// Without this, the author of the checkpoint chooses all limits. The fuel used so far also
    /// comes from the checkpoint, and its author may have set it to zero.
    limits: SessionLimits;
    /// Restricts the code of every run without its own policy, instead of the policy in the
    /// checkpoint.
    policy: Policy => Some;
});

impl From<&Path> for RestoreOptions {
    fn from(path: &Path) -> Self {
        Self::file(path)
    }
}

impl From<&PathBuf> for RestoreOptions {
    fn from(path: &PathBuf) -> Self {
        Self::file(path)
    }
}

impl From<PathBuf> for RestoreOptions {
    fn from(path: PathBuf) -> Self {
        Self::file(path)
    }
}

impl From<&str> for RestoreOptions {
    fn from(path: &str) -> Self {
        Self::file(path)
    }
}
