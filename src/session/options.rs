//! Options of a session: its beginning, and how far it may go.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lease::LeaseEnd;
use crate::api::policy::Bounds;
use crate::api::refusal::{Field, Reason, ReasonKind, Refusal};
use crate::api::request::{Deterministic, ImageChoice, InputFile, Limits, Mount, Policy, Request};
use crate::api::setters::setters;
use crate::api::tool::{Answerer, Tool, ToolLimits};
use crate::limits::{MAX_HISTORY, MAX_SESSION_SETTINGS};
use crate::workspace::json_bytes;

/// How a session starts, and what holds for all of its life.
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
    /// Image, files, mounts, environment, limits and policy: those of memory, workspace and files,
    /// the mounts, the image and deterministic mode hold for the session's whole life, the others
    /// are what its runs get unless they ask for something else. Its code runs first.
    pub start: Request,
    /// How far the session may go.
    pub limits: SessionLimits,
    /// What of the past is kept.
    pub history: HistoryBounds,
    /// Whose default session it is, if it is one.
    pub client: Option<String>,
    /// Whatever the caller wants to know it by.
    pub labels: BTreeMap<String, String>,
    /// How long somebody answers for it, unless that is extended, and what becomes of it then.
    pub lease: Option<(Duration, LeaseEnd)>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            start: Request::default().image("data"),
            limits: SessionLimits::default(),
            history: HistoryBounds::default(),
            client: None,
            labels: BTreeMap::new(),
            lease: None,
        }
    }
}

/// How far a session may go; `None` sets no limit. Past one of them every run fails, and says why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SessionLimits {
    /// Time since the session was made. Forks and restored sessions are as old as what they were made from.
    pub lifetime: Option<Duration>,
    /// Time since it was last used: run, rewound, or changed in its variables or files.
    pub idle: Option<Duration>,
    /// Fuel of all its runs together.
    pub fuel: Option<u64>,
}

setters!(SessionLimits {
    /// Limits the time since the session was made.
    lifetime: Duration => Some;
    /// Limits the time since it was last used.
    idle: Duration => Some;
    /// Limits the fuel of all its runs together.
    fuel: u64 => Some;
});

impl SessionLimits {
    /// The smaller of both for each limit.
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

/// How much of its past a session can go back to; the oldest is dropped first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HistoryBounds {
    /// Runs. Default 100, at most 10,000.
    pub runs: usize,
    /// Bytes of memory and files that only earlier states hold, and of the lists and records that a
    /// checkpoint has of them. Default 64 MiB, at most as much as the runtime allows a run to have in
    /// memory. The code and errors of all runs take at most 24 MiB of it.
    pub bytes: u64,
}

impl HistoryBounds {
    /// These, as far as a runtime with such ceilings allows them.
    pub(super) fn within(self, ceilings: &Bounds) -> Self {
        Self {
            runs: self.runs.min(MAX_HISTORY),
            bytes: self.bytes.min(ceilings.memory),
        }
    }
}

setters!(HistoryBounds {
    /// Bounds the runs.
    runs: usize;
    /// Bounds the bytes.
    bytes: u64;
});

impl Default for HistoryBounds {
    fn default() -> Self {
        Self {
            runs: 100,
            bytes: 64 << 20,
        }
    }
}

/// How many sessions a runtime holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionBounds {
    /// Sessions altogether. Default 10,000.
    pub max: usize,
    /// Sessions in memory; the one used longest ago is suspended to disk for another. Sessions that
    /// are running do not count as ones that could be suspended. Default 100.
    pub max_awake: usize,
    /// A session idle for so long is suspended to disk. Default 5 minutes.
    pub suspend_after: Duration,
    /// Bytes of memory and files, the history's included, of a session that is restored from a
    /// checkpoint; a larger one is refused. Default 4 GiB.
    pub restored: u64,
    /// How far every session may go, however it was made: of each limit the smaller of this and the
    /// session's own counts. A checkpoint has the session's own. Default: no limits.
    pub limits: SessionLimits,
    /// Where suspended sessions and larger files are kept: a directory in here, removed with the
    /// runtime. Default: the runtime's directory for temporary files.
    pub dir: Option<PathBuf>,
}

setters!(SessionBounds {
    /// Bounds how many sessions there are.
    max: usize;
    /// Bounds how many of them are in memory.
    max_awake: usize;
    /// Sets after how long a session that is idle is suspended.
    suspend_after: Duration;
    /// Bounds the memory and files of a session that is restored, in bytes.
    restored: u64;
    /// Bounds how far every session may go.
    limits: SessionLimits;
});

impl SessionBounds {
    /// Sets the directory of the nameless file in which suspended sessions are kept. Where no file can be made
    /// there, they are where the files of sandboxes are.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }
}

impl Default for SessionBounds {
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
    /// A session on the image `data` with every default.
    pub fn new() -> Self {
        Self::default()
    }

    /// A session for which `start` sets the image, the files, the environment and the limits. With
    /// the image `auto` it is chosen by the imports of `start`'s code.
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

    /// Runs this code first. It is not one of the session's runs; when it fails, so does making
    /// the session.
    #[must_use]
    pub fn init_code(mut self, code: impl Into<String>) -> Self {
        self.start.code = code.into();
        self
    }

    /// Places a file with these bytes in the workspace.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.start = self.start.file(path, bytes);
        self
    }

    /// Shows a host directory to the session, read-only, at an absolute path.
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

    /// Lets the code of every run call a tool. A tool of a run's own takes the place of one of the
    /// same name.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.start = self.start.tool(tool);
        self
    }

    /// Replaces all limits of a run.
    #[must_use]
    pub fn run_limits(mut self, limits: Limits) -> Self {
        self.start = self.start.limits(limits);
        self
    }

    /// Restricts what the code of every run may contain that sets no policy of its own.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.start = self.start.policy(policy);
        self
    }

    /// Has the code find its workspace under another absolute path as well, such as `/mnt/data`.
    #[must_use]
    pub fn alias(mut self, path: impl Into<String>) -> Self {
        self.start = self.start.alias(path);
        self
    }

    /// Sets the directory in which runs start that ask for no other.
    #[must_use]
    pub fn cwd(mut self, path: impl Into<String>) -> Self {
        self.start = self.start.cwd(path);
        self
    }

    /// Makes the session repeatable.
    #[must_use]
    pub fn deterministic(mut self, deterministic: Deterministic) -> Self {
        self.start = self.start.deterministic(deterministic);
        self
    }

    /// Limits the time since the session was made.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.limits.lifetime = Some(lifetime);
        self
    }

    /// Limits the time since the last run ended.
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

    /// Bounds what of the past is kept.
    #[must_use]
    pub fn history(mut self, runs: usize, bytes: u64) -> Self {
        self.history = HistoryBounds { runs, bytes };
        self
    }

    /// Gives it a label.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Has it closed or suspended when `duration` has passed since it was made, unless the lease is
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

/// Reasons against a run's request: it asks for what only the session itself can have.
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
    /// Besides `/workspace`.
    pub aliases: Vec<String>,
    /// Where a run starts that does not say it.
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
    /// Of a run that asks for nothing else; those of memory, workspace and files for all.
    pub bounds: Bounds,
    pub policy: Policy,
    pub deterministic: Option<Deterministic>,
    pub limits: SessionLimits,
    pub history: HistoryBounds,
    pub tools: SessionTools,
}

/// Refuses settings that would not fit into a checkpoint.
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

/// Functions of the caller that the code of every run can call. No checkpoint holds them.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionTools {
    pub tools: Vec<Tool>,
    pub limits: ToolLimits,
    pub answerer: Option<Answerer>,
}

impl SessionTools {
    /// Adds them to a run's own, which come first where a name is the same.
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
