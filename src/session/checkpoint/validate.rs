//! Checks the contents of a checkpoint, independently of its format. All bytes are untrusted.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use belljar_files::{Content, Files, Limits, Node};
use belljar_memory::{HOST_PAGE, Pages};

use super::format::{ContentsDocument, NodeEntry, Settings, TOPS};
use super::open_files::{Elsewhere, Listed, reopen};
use super::problem::Problem;
use crate::api::policy::{RunLimits, resolve};
use crate::api::request::{Mount, Policy, Request, RequestLimits as Asked};
use crate::artifact::PAGE;
use crate::limits::MAX_CHECKPOINT_DOCUMENTS;
use crate::sandbox::{Descriptor, Kept, mount_paths};
use crate::session::SessionError;
use crate::session::history::{History, HistoryEntry};
use crate::session::lazy::Earlier;
use crate::session::options::{FixedSettings, SessionLimits, SessionTools, check_settings};
use crate::session::state::State;
use crate::session::timeline::Past;
use crate::workspace::now;

// Limits on the work that a file can cause.
const MAX_NODES: usize = 500_000;
const MAX_DESCRIPTORS: usize = 256;
/// Number of preopened descriptors: streams, own directories, and mounts.
const GIVEN_DESCRIPTORS: usize = 16;
const MAX_PATH: usize = 4096;
/// Guests cannot create trees deeper than 64 names, but the host can.
const MAX_DEPTH: usize = 256;

/// Settings that the caller of a restore gives.
#[derive(Debug, Default)]
pub(in crate::session) struct Given {
    /// A host directory for each mount of the session.
    pub mounts: Vec<Mount>,
    /// Limits that reduce those in the checkpoint.
    pub limits: SessionLimits,
    /// Policy that replaces the policy in the checkpoint.
    pub policy: Option<Policy>,
}

/// Limits on the contents of a checkpoint.
pub(super) struct Room {
    /// Size of the image's memory, in bytes.
    pub image: u64,
    pub bounds: RunLimits,
    /// Files of a guest that has not written anything.
    pub base: Files,
    /// Time of the restoration, in nanoseconds since 1970.
    pub now: u64,
    /// Paths of the mounts.
    pub mounts: Vec<String>,
    /// Additional paths of the workspace.
    pub aliases: Vec<String>,
    /// Maximum size of the history beyond the first and the latest state, in bytes.
    pub history: u64,
    /// Maximum total size, in bytes.
    pub max: u64,
}

impl Room {
    /// Returns the limits of a session with these settings, on an image of size `image`, with at
    /// most `max` bytes in total. `base` are the files of a guest that has not written anything.
    pub(super) fn of(fixed: &FixedSettings, image: u64, max: u64, mut base: Files) -> Self {
        // The contents of a checkpoint are counted before they are read.
        base.set_limits(Limits::NONE);
        Self {
            image,
            bounds: fixed.bounds,
            base,
            now: now(fixed.deterministic.as_ref(), Duration::ZERO),
            mounts: mount_paths(&fixed.mounts),
            aliases: fixed.places.aliases.clone(),
            history: fixed.history.bytes,
            max,
        }
    }

    /// Returns the maximum size of the documents, in bytes: their in-memory form is up to eight
    /// times as large.
    pub(super) fn documents(&self) -> u64 {
        MAX_CHECKPOINT_DOCUMENTS.max(self.max / 8)
    }

    /// Checks that pages and files are within the limits. `placed` are the bytes placed by the
    /// host.
    pub(super) fn check(&self, pages: u64, files: Option<u64>, placed: u64) -> Result<(), Problem> {
        let each = self.image.saturating_add(self.bounds.memory);
        let kept = self.history;
        let pages = pages.saturating_mul(HOST_PAGE as u64);
        // The first state, the latest state, and the history.
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

    /// Builds a state from these pages and files, if they are within its limits.
    pub(super) fn state(
        &self,
        pages: Option<Pages>,
        mut kept: Kept,
        (mut files, open): (Arc<Files>, Listed),
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
        self.check_open(&open)?;
        // Placed bytes raise the limits, but by no more than the actual files, each counted once.
        let used = files.usage();
        if !open.is_empty() {
            let elsewhere = Elsewhere {
                now: self.now,
                mounts: &self.mounts,
                aliases: &self.aliases,
            };
            reopen(Arc::make_mut(&mut files), &mut kept, open, &elsewhere)?;
        }
        Ok(State {
            kept,
            files,
            placed: (placed.0.min(used.bytes), placed.1.min(used.files)),
        })
    }

    fn check_open<T>(&self, descriptors: &[(Descriptor, T)]) -> Result<(), Problem> {
        let mut numbers = HashSet::new();
        // The last number is assigned only when no other is free, so guests cannot exceed their
        // limit on open files.
        let max_number = MAX_DESCRIPTORS + GIVEN_DESCRIPTORS + self.mounts.len();
        let is_sound = |(descriptor, _): &(Descriptor, T)| {
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

/// Returns the fixed settings of the session, if this runtime allows them.
pub(super) fn fixed(
    settings: &Settings,
    given: Given,
    ceilings: &RunLimits,
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
        limits: Asked {
            timeout: Some(asked.timeout),
            memory: Some(asked.memory),
            fuel: asked.fuel,
            output: Some(asked.output),
            workspace: Some(asked.workspace),
            files: Some(asked.files),
        },
        ..Request::default()
    };
    let plan = resolve(request, &RunLimits::default(), ceilings)?;
    let fixed = FixedSettings {
        mounts: plan.request.mounts,
        places,
        bounds: plan.defaults,
        policy: policy.unwrap_or_else(|| settings.policy.clone()),
        deterministic: settings.deterministic.clone(),
        limits: settings.limits.within(&limits),
        history: settings.history_bounds.within(ceilings),
        tools: SessionTools::default(),
    };
    check_settings(&fixed)?;
    Ok(fixed)
}

/// Returns the states of a session by their numbers.
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

/// Builds the directories of a state. Every path must be inside them, and every parent must exist.
pub(super) fn tree(
    (base, now): (&Files, u64),
    contents: ContentsDocument,
    files: &[Content],
) -> Result<Files, Problem> {
    if contents.nodes.len() > MAX_NODES {
        return Err(Problem::Format("a state has too many files"));
    }
    let mut tree = base.clone();
    // Nodes without a number get numbers that no other node has.
    tree.number_from(contents.next_number);
    let numbers = contents.numbers.into_iter().chain(std::iter::repeat(0));
    let mut named: HashMap<usize, Node> = HashMap::new();
    for ((path, entry), number) in contents.nodes.into_iter().zip(numbers) {
        if !is_sound(&path) {
            return Err(outside());
        }
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let is_there = |path| tree.find(path).is_ok();
        if !is_there(parent) || is_there(&path) {
            return Err(outside());
        }
        let made = tree.numbered(number, |tree| {
            Ok(match entry {
                NodeEntry::Directory => tree.put_dir(&path, now),
                NodeEntry::Link(target) if target.len() <= MAX_PATH && !target.contains('\0') => {
                    tree.put_link(&path, &target, now)
                }
                NodeEntry::Link(_) => {
                    return Err(Problem::Format("a state has a link that cannot be"));
                }
                NodeEntry::File { file, modified } => {
                    let content = files.get(file).ok_or_else(no_file)?;
                    let modified = u64::try_from(modified.as_nanos())
                        .map_err(|_| Problem::Format("a file's time is out of range"))?;
                    match named.get(&file) {
                        Some(node) => tree.put_name(&path, *node, now).map(|()| *node),
                        None => tree.put_file(&path, content.clone(), modified).inspect(|node| {
                            named.insert(file, *node);
                        }),
                    }
                }
            })
        });
        made?.map_err(|_| outside())?;
    }
    for (path, labels, next) in contents.listings {
        let relabeled = tree.find(&path).and_then(|dir| tree.put_labels(dir, &labels, next));
        relabeled.map_err(|_| Problem::Format("a directory is listed that is another"))?;
    }
    Ok(tree)
}

/// Whether a path is in one of the guest's directories and all its names are valid.
fn is_sound(path: &str) -> bool {
    let mut parts = path.split('/');
    let inside = parts.next().is_some_and(|top| TOPS.contains(&top));
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    inside
        && path.len() <= MAX_PATH
        && (1..=MAX_DEPTH).contains(&parts.clone().count())
        && parts.all(plain)
}

fn outside() -> Problem {
    Problem::Format("a state has a file outside of its directories")
}
