//! Options of a session: its start and its limits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lease::LeaseEnd;
use crate::api::policy::RunLimits;
use crate::api::refusal::{Field, Reason, ReasonKind, Refusal};
use crate::api::request::{
    Deterministic, ImageChoice, InputFile, Mount, Policy, Request, RequestLimits,
};
use crate::api::setters::setters;
use crate::api::tool::{Answerer, Tool, ToolLimits};
use crate::limits::{MAX_HISTORY, MAX_SESSION_SETTINGS};
use crate::workspace::json_bytes;

/// How a session starts, and the settings of its whole life.
///
/// ```
/// use belljar::SessionOptions;
/// use std::time::Duration;
///
/// let options = SessionOptions::new()
///     .image("data")
///     .init_code("import pandas as pd")
///     .lifetime(Duration::from_secs(3600));
/// assert_eq!(options.limits.lifetime, Some(Duration::from_secs(3600)));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SessionOptions {
    /// Image, files, mounts, environment, limits and policy. The image, the mounts, the limits on
    /// memory, workspace and files, and deterministic mode apply to the session's whole life. The
    /// other settings are defaults of its runs. The code of this request is the initial code.
    pub start: Request,
    /// Limits of the session.
    pub limits: SessionLimits,
    /// Limits of the history.
    pub history: HistoryLimits,
    /// Client whose default session this is, if any.
    pub client: Option<String>,
    /// Labels chosen by the caller.
    pub labels: BTreeMap<String, String>,
    /// Duration of the lease, unless extended, and what happens at its end.
    pub lease: Option<(Duration, LeaseEnd)>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            start: Request::default().image("data"),
            limits: SessionLimits::default(),
            history: HistoryLimits::default(),
            client: None,
            labels: BTreeMap::new(),
            lease: None,
        }
    }
}

/// Limits of a session; `None` means no limit. When a limit is exceeded, every run fails with an
/// error that names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SessionLimits {
    /// Time since the session's creation. Forks and restored sessions inherit their age.
    pub lifetime: Option<Duration>,
    /// Time since the session's last use: a run, a rewind, or a change of variables or files.
    pub idle: Option<Duration>,
    /// Fuel of all runs together.
    pub fuel: Option<u64>,
}

setters!(SessionLimits {
    /// Limits the time since the session's creation.
    lifetime: Duration => Some;
    /// Limits the time since the session's last use.
    idle: Duration => Some;
    /// Limits the fuel of all runs together.
    fuel: u64 => Some;
});

impl SessionLimits {
    /// Returns the smaller value of each limit.
    pub(super) fn within(self, bounds: &Self) -> Self {
        fn least<T: Ord>(own: Option<T>, bound: Option<T>) -> Option<T> {
            own.into_iter().chain(bound).min()
        }
        Self {
            lifetime: least(self.lifetime, bounds.lifetime),
            idle: least(self.idle, bounds.idle),
            fuel: least(self.fuel, bounds.fuel),
        }
    }
}

/// Limits of a session's history. The oldest runs are dropped first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HistoryLimits {
    /// Number of runs. Default 100, at most 10,000.
    pub runs: usize,
    /// Size of memory and files that only earlier states hold, each changed file counted whole, and
    /// of their records in a checkpoint, in bytes. Default 64 MiB, at most the runtime's ceiling on
    /// a run's memory. Code and errors of all runs take at most 24 MiB of it.
    pub bytes: u64,
}

impl HistoryLimits {
    /// Returns these limits, reduced to the runtime's ceilings.
    pub(super) fn within(self, ceilings: &RunLimits) -> Self {
        Self {
            runs: self.runs.min(MAX_HISTORY),
            bytes: self.bytes.min(ceilings.memory),
        }
    }
}

setters!(HistoryLimits {
    /// Limits the number of runs.
    runs: usize;
    /// Limits the size, in bytes.
    bytes: u64;
});

impl Default for HistoryLimits {
    fn default() -> Self {
        Self {
            runs: 100,
            bytes: 64 << 20,
        }
    }
}

/// Limits of a runtime's sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistryLimits {
    /// Number of sessions. Default 10,000.
    pub max: usize,
    /// Number of sessions in memory. To make room, the least recently used session is suspended to
    /// disk; running sessions cannot be suspended. Default 100.
    pub max_awake: usize,
    /// Idle time after which a session is suspended to disk. Default 5 minutes.
    pub suspend_after: Duration,
    /// Size of a restored session's memory and files, including its history, in bytes. Larger
    /// checkpoints are rejected. Default 4 GiB.
    pub restored: u64,
    /// Limits of each session, regardless of its origin. For each limit, the smaller of this value
    /// and the session's own applies. A checkpoint contains only the session's own. Default: no
    /// limits.
    pub limits: SessionLimits,
    /// Directory for suspended sessions and larger files. They are in a directory inside it, which
    /// is removed with the runtime. Default: the runtime's directory for temporary files.
    pub dir: Option<PathBuf>,
}

setters!(RegistryLimits {
    /// Limits the number of sessions.
    max: usize;
    /// Limits the number of sessions in memory.
    max_awake: usize;
    /// Sets the idle time after which a session is suspended.
    suspend_after: Duration;
    /// Limits the memory and files of a restored session, in bytes.
    restored: u64;
    /// Limits each session.
    limits: SessionLimits;
});

impl RegistryLimits {
    /// Sets the directory of the nameless file that contains suspended sessions. If no file can be
    /// created there, suspended sessions are stored with the files of sandboxes.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }
}

impl Default for RegistryLimits {
    fn default() -> Self {
        Self {
            max: 10_000,
            max_awake: 100,
            suspend_after: Duration::from_mins(5),
            restored: 4 << 30,
            limits: SessionLimits::default(),
            dir: None,
        }
    }
}

impl SessionOptions {
    /// Creates options for a session on the image `data`, with all defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates options for a session with the image, files, environment and limits of `start`. With
    /// the image `auto`, the imports of its code choose the image.
    pub fn from_request(start: Request) -> Self {
        Self {
            start,
            ..Self::default()
        }
    }

    /// Starts from the image `name`.
    #[must_use]
    pub fn image(mut self, name: impl Into<String>) -> Self {
        self.start = self.start.image(name);
        self
    }

    /// Runs this code first. It does not count as a run. If it fails, the session is not created.
    #[must_use]
    pub fn init_code(mut self, code: impl Into<String>) -> Self {
        self.start.code = code.into();
        self
    }

    /// Places a file in the workspace.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.start = self.start.file(path, bytes);
        self
    }

    /// Mounts a host directory at an absolute path, read-only.
    #[must_use]
    pub fn mount(mut self, host: impl Into<PathBuf>, guest: impl Into<String>) -> Self {
        self.start = self.start.mount(host, guest);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.start = self.start.env(name, value);
        self
    }

    /// Lets the code of every run call a tool. A run's own tool of the same name takes precedence.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.start = self.start.tool(tool);
        self
    }

    /// Replaces all limits of runs.
    #[must_use]
    pub fn run_limits(mut self, limits: RequestLimits) -> Self {
        self.start = self.start.limits(limits);
        self
    }

    /// Restricts the code of every run without its own policy.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.start = self.start.policy(policy);
        self
    }

    /// Adds an absolute path of the workspace, such as `/mnt/data`.
    #[must_use]
    pub fn alias(mut self, path: impl Into<String>) -> Self {
        self.start = self.start.alias(path);
        self
    }

    /// Sets the default current directory of runs.
    #[must_use]
    pub fn cwd(mut self, path: impl Into<String>) -> Self {
        self.start = self.start.cwd(path);
        self
    }

    /// Makes the session reproducible.
    #[must_use]
    pub fn deterministic(mut self, deterministic: Deterministic) -> Self {
        self.start = self.start.deterministic(deterministic);
        self
    }

    /// Limits the time since the session's creation.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.limits.lifetime = Some(lifetime);
        self
    }

    /// Limits the time since the session's last use.
    #[must_use]
    pub fn idle(mut self, idle: Duration) -> Self {
        self.limits.idle = Some(idle);
        self
    }

    /// Limits the fuel of all runs together.
    #[must_use]
    pub fn total_fuel(mut self, fuel: u64) -> Self {
        self.limits.fuel = Some(fuel);
        self
    }

    /// Limits the history.
    #[must_use]
    pub fn history(mut self, runs: usize, bytes: u64) -> Self {
        self.history = HistoryLimits { runs, bytes };
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Closes or suspends the session after `duration` from its creation, unless the lease is
    /// [extended](crate::Session::extend_lease).
    #[must_use]
    pub fn lease(mut self, duration: Duration, then: LeaseEnd) -> Self {
        self.lease = Some((duration, then));
        self
    }

    /// Makes it the default session of a client.
    #[must_use]
    pub fn client(mut self, client: impl Into<String>) -> Self {
        self.client = Some(client.into());
        self
    }
}

/// Returns reasons against a run's request that sets fields fixed for the session.
pub(super) fn misplaced(request: &Request, image: &str) -> Vec<Reason> {
    let Request { limits, .. } = request;
    let other_image = matches!(&request.image, ImageChoice::Named(name) if name != image);
    let fields = [
        (Field::Image, other_image),
        (Field::Mounts, !request.mounts.is_empty()),
        (Field::Aliases, !request.aliases.is_empty()),
        (Field::Deterministic, request.deterministic.is_some()),
        (Field::Answers, !request.answers.is_empty()),
        (Field::Memory, limits.memory.is_some()),
        (Field::Workspace, limits.workspace.is_some()),
        (Field::MaxFiles, limits.files.is_some()),
    ];
    let message = "set for a whole session, not for one of its runs";
    let asked = fields.into_iter().filter(|(_, is_asked)| *is_asked);
    asked.map(|(field, _)| Reason::new(field, ReasonKind::FixedForSession, message)).collect()
}

/// The paths of a session's workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Places {
    /// Additional paths, next to `/workspace`.
    pub aliases: Vec<String>,
    /// Default current directory of runs.
    pub cwd: Option<String>,
}

impl Places {
    pub(super) fn are_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// Fixed settings of a session.
#[derive(Clone, Debug)]
pub(super) struct FixedSettings {
    pub mounts: Vec<Mount>,
    pub places: Places,
    /// Default limits of a run. Those on memory, workspace and files apply to all runs.
    pub bounds: RunLimits,
    pub policy: Policy,
    pub deterministic: Option<Deterministic>,
    pub limits: SessionLimits,
    pub history: HistoryLimits,
    pub tools: SessionTools,
}

/// Rejects settings that would not fit into a checkpoint.
pub(super) fn check_settings(fixed: &FixedSettings) -> Result<(), Refusal> {
    let rules = match &fixed.policy {
        Policy::Custom(rules) => Some(rules),
        Policy::Open | Policy::Strict => None,
    };
    let words = rules.into_iter().flat_map(|rules| {
        rules.imports.iter().chain(&rules.forbidden_names).chain(&rules.forbidden_attributes)
    });
    let bytes = |text: &String| json_bytes(text) as usize + 1;
    let policy: usize = words.map(bytes).sum();
    let places = fixed.mounts.iter().map(|mount| &mount.guest).chain(&fixed.places.aliases);
    let places: usize = places.chain(&fixed.places.cwd).map(bytes).sum();
    if policy + places <= MAX_SESSION_SETTINGS {
        return Ok(());
    }
    let field = if policy > places {
        Field::Policy
    } else {
        Field::Mounts
    };
    let message = format!(
        "{} bytes with the paths of mounts and aliases, a session has at most {MAX_SESSION_SETTINGS}",
        policy + places
    );
    Refusal::unless_empty(vec![Reason::new(field, ReasonKind::TooLong, message)])
}

/// Functions of the caller that the code of every run can call. Checkpoints do not contain them.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionTools {
    pub tools: Vec<Tool>,
    pub limits: ToolLimits,
    pub answerer: Option<Answerer>,
}

impl SessionTools {
    /// Adds these tools to those of a run. The run's own tools take precedence.
    pub(super) fn complete(&self, request: &mut Request) {
        let own = &mut request.tools;
        let missing = self.tools.iter().filter(|tool| own.iter().all(|o| o.name() != tool.name()));
        let missing: Vec<Tool> = missing.cloned().collect();
        own.extend(missing);
        if request.tool_limits == ToolLimits::default() {
            request.tool_limits = self.limits;
        }
        if request.answerer.is_none() {
            request.answerer.clone_from(&self.answerer);
        }
    }
}

/// Files and request of a session's initial code.
pub(super) struct InitialRun {
    pub files: Vec<InputFile>,
    pub request: Request,
}
