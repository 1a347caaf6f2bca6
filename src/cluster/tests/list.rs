//! A host whose sessions are lists of their runs.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::super::host::{Host, Live};
use super::clock::NodeClock;
use crate::error::Error;
use crate::session::{Recalled, SessionError, Times};
use crate::store::{Condition, Store};

/// The host of a node.
pub(super) struct Lists {
    pub clock: NodeClock,
}

/// A session: the numbers of its runs.
#[derive(Clone)]
pub(super) struct List {
    inner: Arc<Inner>,
    pass: Pass,
}

#[derive(Clone, Copy)]
enum Pass {
    Change(u64),
    Look,
    Keeper,
}

/// The age and idle time of a session.
struct Counted {
    clock: NodeClock,
    woken: Instant,
    told: Times,
    used: Option<Instant>,
}

#[derive(Default)]
struct Inner {
    counted: Mutex<Option<Counted>>,
    runs: Mutex<Vec<u64>>,
    recalled: AtomicU64,
    is_changed: AtomicBool,
    is_closed: AtomicBool,
    lost: Mutex<Vec<String>>,
    /// The current run.
    running: Mutex<Option<u64>>,
    /// The interrupted runs.
    interrupted: Mutex<BTreeSet<u64>>,
}

impl List {
    pub(super) fn new(runs: Vec<u64>) -> Self {
        Self {
            inner: Arc::new(Inner {
                runs: runs.into(),
                ..Inner::default()
            }),
            pass: Pass::Change(0),
        }
    }

    /// Returns a copy woken with these times.
    pub(super) fn woken(self, clock: &NodeClock, told: Times) -> Self {
        *self.inner.counted.lock().unwrap() = Some(Counted {
            clock: clock.clone(),
            woken: clock.now(),
            told,
            used: None,
        });
        self
    }

    pub(super) fn runs(&self) -> Vec<u64> {
        self.inner.runs.lock().unwrap().clone()
    }

    /// Adds a run. Returns the losses that its outcome reports, or `None` if the handle does not
    /// permit changes.
    pub(super) fn run(&self, number: u64) -> Option<Vec<String>> {
        let is_valid = match self.pass {
            Pass::Change(count) => count == self.inner.recalled.load(Ordering::Relaxed),
            Pass::Look => false,
            Pass::Keeper => true,
        };
        if !is_valid {
            return None;
        }
        self.inner.is_changed.store(true, Ordering::Relaxed);
        self.inner.runs.lock().unwrap().push(number);
        if let Some(counted) = &mut *self.inner.counted.lock().unwrap() {
            counted.used = Some(counted.clock.now());
        }
        Some(std::mem::take(&mut self.inner.lost.lock().unwrap()))
    }

    /// Makes `number` the current run. Returns whether it was the current run and was interrupted.
    pub(super) fn is_interrupted(&self, number: u64) -> bool {
        *self.inner.running.lock().unwrap() = Some(number);
        self.inner.interrupted.lock().unwrap().contains(&number)
    }

    /// Ends the current run.
    pub(super) fn rest(&self) {
        *self.inner.running.lock().unwrap() = None;
    }

    fn with(&self, pass: Pass) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            pass,
        }
    }
}

fn part(runs: &[u64]) -> String {
    format!("chunks/{}", blake3::hash(format!("{runs:?}").as_bytes()).to_hex())
}

impl Host for Lists {
    type Session = List;

    async fn wake(
        &self,
        store: &Arc<dyn Store>,
        id: &str,
        state: &str,
        told: Times,
    ) -> Result<List, Error> {
        let Some(named) = store.get(state, 1 << 20).await? else {
            return Err(SessionError::StateGone { id: id.into() }.into());
        };
        let part = String::from_utf8(named.bytes.to_vec()).unwrap();
        let runs = store.get(&part, 1 << 20).await?.expect("a state names a chunk that is missing");
        Ok(List::new(serde_json::from_slice(&runs.bytes).unwrap()).woken(&self.clock, told))
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn date(&self) -> u64 {
        self.clock.date()
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send {
        let clock = self.clock.clone();
        async move { clock.sleep(time).await }
    }
}

impl Live for List {
    async fn save(&self, store: &Arc<dyn Store>, state: &str) -> Result<u64, Error> {
        let runs = self.runs();
        let bytes = serde_json::to_vec(&runs).unwrap();
        // Rejected if the chunk exists already.
        let _ = store.put(&part(&runs), bytes.into(), Condition::Absent).await?;
        let _ = store.put(state, part(&runs).into(), Condition::Always).await?;
        Ok(runs.len() as u64)
    }

    fn interrupt(&self) -> bool {
        let running = *self.inner.running.lock().unwrap();
        self.inner.interrupted.lock().unwrap().extend(running);
        running.is_some()
    }

    fn close(&self) {
        self.inner.is_closed.store(true, Ordering::Relaxed);
    }

    fn is_open(&self) -> bool {
        !self.inner.is_closed.load(Ordering::Relaxed)
    }

    fn unused(&self) -> Duration {
        Duration::ZERO
    }

    fn times(&self) -> Times {
        let counted = self.inner.counted.lock().unwrap();
        let Some(Counted {
            clock,
            woken,
            told,
            used,
        }) = &*counted
        else {
            return Times::default();
        };
        let passed = |since| clock.now().saturating_duration_since(since);
        Times {
            age: told.age + passed(*woken),
            idle: used.map_or_else(|| told.idle + passed(*woken), passed),
        }
    }

    fn image(&self) -> String {
        "list".into()
    }

    fn keeper(&self) -> Self {
        self.recall();
        self.with(Pass::Keeper)
    }

    fn lend(&self, lost: Vec<String>) -> Self {
        *self.inner.lost.lock().unwrap() = lost;
        self.with(Pass::Change(self.inner.recalled.load(Ordering::Relaxed)))
    }

    fn show(&self) -> Self {
        self.with(Pass::Look)
    }

    fn recall(&self) -> Recalled {
        self.inner.recalled.fetch_add(1, Ordering::Relaxed);
        Recalled {
            is_changed: self.inner.is_changed.swap(false, Ordering::Relaxed),
            lost: std::mem::take(&mut self.inner.lost.lock().unwrap()),
        }
    }
}
