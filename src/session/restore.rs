//! How a session is restored from a checkpoint.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::lease::LeaseEnd;
use super::options::SessionLimits;
use super::times::Times;
use crate::api::request::{Mount, Policy};
use crate::api::tool::Tool;
use crate::store::Store;

/// A checkpoint, and what the session that is restored from it gets that is not in it.
///
/// ```no_run
/// # async fn example(runtime: belljar::Runtime) -> Result<(), Box<dyn std::error::Error>> {
/// use belljar::RestoreOptions;
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

/// Where a checkpoint comes from.
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
    /// The checkpoint in a file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::of(Origin::File(path.into()))
    }

    /// The checkpoint that `reader` gives up to its end. It is read into a file first, on a thread
    /// that may block, and no more of it than a session that is restored may have.
    pub fn reader(reader: impl Read + Send + 'static) -> Self {
        Self::of(Origin::Reader(Box::new(reader)))
    }

    /// The session that [`Session::save`](crate::Session::save) has written to `store` under `key`.
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

    /// Shows a directory of the host where the session sees one: which one is not up to the
    /// checkpoint.
    #[must_use]
    pub fn mount(mut self, host: impl Into<PathBuf>, guest: impl Into<String>) -> Self {
        self.mounts.push(Mount::new(host, guest));
        self
    }

    /// Replaces all directories that the session sees.
    #[must_use]
    pub fn mounts(mut self, mounts: Vec<Mount>) -> Self {
        self.mounts = mounts;
        self
    }

    /// Gives the session this id, such as the one that it had, instead of a new one: 1 to 64
    /// letters, digits, `-` and `_`. It has to be free. A checkpoint holds no id, since whoever
    /// wrote it could choose that of somebody else.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Lets the code of every run call a tool, such as those that the session had: functions are in
    /// no checkpoint.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Bounds how far the session may go: of each limit the smaller of this one and the checkpoint's
    /// counts. Without it, whoever wrote the checkpoint chose all of them. The fuel used so far is that
    /// of the checkpoint as well, and its author may have set it to nothing.
    #[must_use]
    pub fn limits(mut self, limits: SessionLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Restricts what the code of every run may contain that sets no policy of its own, in the place of
    /// the policy in the checkpoint.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Has it closed or suspended when `duration` has passed since it was restored, as
    /// [`SessionOptions::lease`](crate::SessionOptions::lease) does.
    #[must_use]
    pub fn lease(mut self, duration: Duration, then: LeaseEnd) -> Self {
        self.lease = Some((duration, then));
        self
    }

    /// The age and the idle time of the session by its record. Where those in the checkpoint are longer,
    /// they count.
    #[must_use]
    pub(crate) fn times(mut self, told: Times) -> Self {
        self.told = told;
        self
    }

    /// Makes it the default session of a client.
    #[must_use]
    pub fn client(mut self, client: impl Into<String>) -> Self {
        self.client = Some(client.into());
        self
    }
}

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
