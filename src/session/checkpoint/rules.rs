//! What a checkpoint may hold, whatever its format. Every byte of it is taken for hostile.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use super::format::{NodeEntry, Settings};
use super::problem::Problem;
use crate::api::policy::{Bounds, resolve};
use crate::api::request::{Limits, Mount, Policy, Request};
use crate::instance::{Descriptor, Kept};
use crate::limits::MAX_CHECKPOINT_DOCUMENTS;
use crate::memory::{HOST_PAGE, Pages};
use crate::module::PAGE;
use crate::session::SessionError;
use crate::session::earlier::Earlier;
use crate::session::history::{History, HistoryEntry};
use crate::session::options::{FixedSettings, SessionLimits, SessionTools, check_settings};
use crate::session::past::Past;
use crate::session::state::State;
use crate::workspace::{Contents, Node, StoredFile};

// Bounds on what a file can make us do.
const MAX_NODES: usize = 500_000;
const MAX_DESCRIPTORS: usize = 256;
/// Numbers that are in use beside those of open files: streams, own directories, and each mount.
const GIVEN_DESCRIPTORS: usize = 16;
const MAX_PATH: usize = 4096;
/// A guest makes no deeper trees than 64 names, but its host may.
const MAX_DEPTH: usize = 256;

/// Settings of a session that its restorer gives.
#[derive(Debug, Default)]
pub(in crate::session) struct Given {
    /// A directory of the host for each place where the session sees one.
    pub mounts: Vec<Mount>,
    /// Bounds on the limits in the checkpoint.
    pub limits: SessionLimits,
    /// Replaces the policy in the checkpoint.
    pub policy: Option<Policy>,
}

/// How large what is in a checkpoint may be.
pub(super) struct Room {
    /// Bytes of the image's memory.
    pub image: u64,
    pub bounds: Bounds,
    /// Directories of the host that are seen.
    pub mounts: usize,
    /// Bytes that the history may hold besides the first state and the latest.
    pub history: u64,
    /// Bytes of everything together.
    pub max: u64,
}

impl Room {
    /// The room of a session with such settings, on an image of so many bytes, of which there may be `max`
    /// bytes.
    pub(super) fn of(fixed: &FixedSettings, image: u64, max: u64) -> Self {
        Self {
            image,
            bounds: fixed.bounds,
            mounts: fixed.mounts.len(),
            history: fixed.history.bytes,
            max,
        }
    }

    /// Bytes that the documents may have: what is made of them takes up to eight times as much memory.
    pub(super) fn documents(&self) -> u64 {
        MAX_CHECKPOINT_DOCUMENTS.max(self.max / 8)
    }

    /// Whether there is room for so many pages, and files of so many bytes; `placed` are the bytes
    /// that the host placed.
    pub(super) fn check(&self, pages: u64, files: Option<u64>, placed: u64) -> Result<(), Problem> {
        let each = self.image.saturating_add(self.bounds.memory);
        let kept = self.history;
        let pages = pages.saturating_mul(HOST_PAGE as u64);
        // The first state, the latest, and what the history may hold besides.
        if pages > each.saturating_mul(3).saturating_add(kept) {
            return Err(Problem::Format("it holds more memory than its limits allow"));
        }
        let max = self.bounds.workspace.saturating_add(placed).saturating_mul(3);
        if files.is_none_or(|bytes| bytes > max.saturating_add(kept)) {
            return Err(Problem::Format("it holds more files than its limits allow"));
        }
        let all = files.map(|bytes| bytes.saturating_add(pages));
        if all.is_none_or(|bytes| bytes > self.max) {
            return Err(too_much());
        }
        Ok(())
    }

    /// A state with these pages and files, if it may have them.
    pub(super) fn state(
        &self,
        pages: Option<Pages>,
        mut kept: Kept,
        contents: Arc<Contents>,
        placed: (u64, u64),
    ) -> Result<State, Problem> {
        let memory = kept.memory as u64;
        let max = self.image.saturating_add(self.bounds.memory).min(1 << 32);
        if memory < self.image || memory > max || !memory.is_multiple_of(PAGE as u64) {
            return Err(Problem::Format("a state has more or less memory than it may"));
        }
        let pages = pages
            .filter(|pages| (pages.end() * HOST_PAGE) as u64 <= memory)
            .ok_or(Problem::Format("a state's pages are not where they may be"))?;
        kept.pages = Arc::new(pages);
        self.check_open(&kept.descriptors)?;
        kept.descriptors.sort_by_key(|descriptor| descriptor.number);
        // What was placed widens the bounds: never by more than what is there, each file taken once.
        let (bytes, nodes) = contents.size();
        Ok(State {
            kept,
            contents,
            placed: (placed.0.min(bytes), placed.1.min(nodes)),
        })
    }

    fn check_open(&self, descriptors: &[Descriptor]) -> Result<(), Problem> {
        let mut numbers = HashSet::new();
        // The number behind the last is given only when no other is free: no guest gets beyond what it
        // may have open.
        let max_number = MAX_DESCRIPTORS + GIVEN_DESCRIPTORS + self.mounts;
        let is_sound = |descriptor: &Descriptor| {
            let number = descriptor.number;
            usize::try_from(number).is_ok_and(|number| number < max_number)
                && numbers.insert(number)
                && descriptor.path.starts_with('/')
                && descriptor.path.len() <= MAX_PATH
                && i64::try_from(descriptor.position).is_ok()
        };
        if descriptors.len() > MAX_DESCRIPTORS || !descriptors.iter().all(is_sound) {
            return Err(Problem::Format("a state has an open file that cannot be"));
        }
        Ok(())
    }
}

/// Fixed settings of the session, if this runtime allows them.
pub(super) fn fixed(
    settings: &Settings,
    given: Given,
    ceilings: &Bounds,
    path: &Path,
) -> Result<FixedSettings, crate::error::Error> {
    let Given {
        mounts,
        limits,
        policy,
    } = given;
    let asked = &settings.bounds;
    let is_given = |guest: &String| mounts.iter().any(|mount| mount.guest == *guest);
    if !settings.mounts.iter().all(is_given) || mounts.len() != settings.mounts.len() {
        return Err(SessionError::Mounts {
            path: path.to_owned(),
            expected: settings.mounts.clone(),
        }
        .into());
    }
    let places = settings.places.clone();
    let request = Request {
        mounts,
        aliases: places.aliases.clone(),
        cwd: places.cwd.clone(),
        limits: Limits {
            timeout: Some(asked.timeout),
            memory: Some(asked.memory),
            fuel: asked.fuel,
            output: Some(asked.output),
            workspace: Some(asked.workspace),
            files: Some(asked.files),
        },
        ..Request::default()
    };
    let plan = resolve(request, &Bounds::default(), ceilings)?;
    let fixed = FixedSettings {
        mounts: plan.request.mounts,
        places,
        bounds: plan.bounds,
        policy: policy.unwrap_or_else(|| settings.policy.clone()),
        deterministic: settings.deterministic.clone(),
        limits: settings.limits.within(&limits),
        history: settings.history_bounds.within(ceilings),
        tools: SessionTools::default(),
    };
    check_settings(&fixed)?;
    Ok(fixed)
}

/// The states of a session, each by its number.
pub(super) fn past(
    states: &[Earlier],
    (origin, current): (usize, usize),
    runs: Vec<(HistoryEntry, usize)>,
    execution: u64,
    mut history: History,
) -> Result<Past, Problem> {
    let find = |number: usize| {
        states.get(number).cloned().ok_or(Problem::Format("it names a state that is not there"))
    };
    let mut last = 0;
    for (record, number) in runs {
        if record.execution <= last || record.execution > execution {
            return Err(Problem::Format("its history is not in order"));
        }
        last = record.execution;
        history.push(record, find(number)?);
    }
    let no_state = Problem::Format("the latest state was not read");
    Ok(Past {
        origin: find(origin)?,
        state: find(current)?.here().cloned().ok_or(no_state)?,
        history,
    })
}

pub(super) fn too_much() -> Problem {
    Problem::Format("it holds more than this runtime restores")
}

pub(super) fn no_file() -> Problem {
    Problem::Format("it names a file that is not there")
}

/// The directories of a state: every path inside them, and every parent there.
pub(super) fn tree(
    contents: Vec<(String, NodeEntry)>,
    files: &[StoredFile],
) -> Result<Contents, Problem> {
    if contents.len() > MAX_NODES {
        return Err(Problem::Format("a state has too many files"));
    }
    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    for (path, entry) in contents {
        let node = match entry {
            NodeEntry::Directory => Node::Directory,
            NodeEntry::Link(target) if target.len() <= MAX_PATH && !target.contains('\0') => {
                Node::Link(target)
            }
            NodeEntry::Link(_) => return Err(Problem::Format("a state has a link that cannot be")),
            NodeEntry::File { file, modified } => {
                let stored = files.get(file).ok_or_else(no_file)?;
                let modified = SystemTime::UNIX_EPOCH
                    .checked_add(modified)
                    .ok_or(Problem::Format("a file's time is out of range"))?;
                let mut stored = stored.clone();
                stored.modified = modified;
                Node::File(stored)
            }
        };
        nodes.insert(path, node);
    }
    let depth = 1..=MAX_DEPTH;
    for path in nodes.keys() {
        let mut parts = path.split('/');
        let inside = matches!(parts.next(), Some("workspace" | "tmp"));
        let separates = |c: char| c == '\0' || std::path::is_separator(c);
        let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(separates);
        let is_sound = inside
            && path.len() <= MAX_PATH
            && depth.contains(&parts.clone().count())
            && parts.all(plain);
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let has_parent = matches!(parent, "workspace" | "tmp")
            || matches!(nodes.get(parent), Some(Node::Directory));
        if !is_sound || !has_parent {
            return Err(Problem::Format("a state has a file outside of its directories"));
        }
    }
    Ok(Contents(nodes))
}
