//! What a checkpoint may hold, whatever its format. Every byte of it is taken for hostile.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use belljar_files::{Content, Files, Limits, Node};

use super::format::{ContentsDocument, NodeEntry, Settings, TOPS};
use super::opened::{Elsewhere, Listed, reopen};
use super::problem::Problem;
use crate::api::policy::{Bounds, resolve};
use crate::api::request::{Limits as Asked, Mount, Policy, Request};
use crate::instance::{Descriptor, Kept, mount_paths};
use crate::limits::MAX_CHECKPOINT_DOCUMENTS;
use crate::memory::{HOST_PAGE, Pages};
use crate::module::PAGE;
use crate::session::SessionError;
use crate::session::earlier::Earlier;
use crate::session::history::{History, HistoryEntry};
use crate::session::options::{FixedSettings, SessionLimits, SessionTools, check_settings};
use crate::session::past::Past;
use crate::session::state::State;
use crate::workspace::now;

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
    /// The files of a guest that has written nothing.
    pub base: Files,
    /// When it was made anew, in nanoseconds since 1970.
    pub now: u64,
    /// Where it sees directories of the host.
    pub mounts: Vec<String>,
    /// Other paths of its workspace.
    pub aliases: Vec<String>,
    /// Bytes that the history may hold besides the first state and the latest.
    pub history: u64,
    /// Bytes of everything together.
    pub max: u64,
}

impl Room {
    /// The room of a session with such settings, on an image of so many bytes, of which there may be `max`
    /// bytes; `base` are the files of a guest that has written nothing.
    pub(super) fn of(fixed: &FixedSettings, image: u64, max: u64, mut base: Files) -> Self {
        // What is in a checkpoint is counted before it is read.
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
        // What was placed widens the bounds: never by more than what is there, each file taken once.
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
        // The number behind the last is given only when no other is free: no guest gets beyond what it
        // may have open.
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
    (base, now): (&Files, u64),
    contents: ContentsDocument,
    files: &[Content],
) -> Result<Files, Problem> {
    if contents.nodes.len() > MAX_NODES {
        return Err(Problem::Format("a state has too many files"));
    }
    let mut tree = base.clone();
    // Those that have no number get others than those that have one.
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
    Ok(tree)
}

/// Whether a path lies in a directory of the guest's, and every name in it is one.
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
