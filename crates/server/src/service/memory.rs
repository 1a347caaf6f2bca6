//! The memory budget of the process. Over budget, nothing new starts, and idle sessions are
//! suspended.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use belljar::Runtime;
use belljar::session::SessionStatus;

use super::Service;
use super::error::ServiceError;
use crate::lock::lock;

/// How long a measurement is reused.
const STANDS: Duration = Duration::from_millis(100);
/// Pause after trying to suspend all sessions. Running sessions may be idle after it.
const REST: Duration = Duration::from_secs(1);

/// The budget and the latest measurement.
pub(crate) struct Budget {
    bytes: u64,
    measured: Mutex<Option<(Instant, u64)>>,
}

/// A budget that cannot be enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// The system does not report the process's memory.
    #[error("this system does not report the memory of the server")]
    Unknown,
    /// The budget is below the server's own memory.
    #[error("the server itself uses {} MiB, and its budget is {} MiB", .held >> 20, .budget >> 20)]
    TooSmall {
        /// Memory of the process before its first run, in bytes.
        held: u64,
        /// The requested budget, in bytes.
        budget: u64,
    },
}

impl Service {
    /// Checks the budget.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError::Memory`] if the process is over budget.
    pub(crate) fn has_memory(&self) -> Result<(), ServiceError> {
        self.shared.has_memory()
    }

    /// While the process is over budget, returns free memory to the system and suspends idle
    /// sessions. Never ends. Does nothing without a budget.
    pub(crate) async fn relieve(&self) {
        let Some(budget) = &self.shared.budget else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(STANDS).await;
            if budget.is_over(&self.shared.runtime) {
                // Memory freed by finished requests may still count as the process's.
                let _ = tokio::task::spawn_blocking(belljar::setup::trim_memory).await;
                self.suspend_idle(budget).await;
                if budget.is_over(&self.shared.runtime) {
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }

    async fn suspend_idle(&self, budget: &Budget) {
        let sessions = self.shared.runtime.sessions();
        let owners: HashMap<String, String> = {
            let all = self.shared.all();
            all.iter().map(|held| (held.id().to_owned(), held.owner().to_owned())).collect()
        };
        let idle = sessions.list().into_iter().filter(|info| info.status == SessionStatus::Idle);
        let idle = idle.map(|info| Idle {
            owner: owners.get(&info.id).cloned(),
            seconds: info.idle_seconds,
            id: info.id,
        });
        let mut suspended = 0;
        for id in in_turn(idle.collect()) {
            if !budget.measures_over(&self.shared.runtime) {
                break;
            }
            if let Ok(session) = sessions.get(&id) {
                suspended += usize::from(session.suspend().await);
            }
        }
        tracing::info!(suspended, "the server exceeds its memory budget");
    }
}

/// An idle session.
struct Idle {
    id: String,
    /// Its owner; `None` for sessions in a store.
    owner: Option<String>,
    seconds: f64,
}

/// The order in which sessions are suspended: the least recently used sessions of the owners with
/// the most sessions first, so that owners with few sessions keep them.
fn in_turn(mut idle: Vec<Idle>) -> Vec<String> {
    idle.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    let mut counts: HashMap<Option<String>, usize> = HashMap::new();
    let mut ranked: Vec<(usize, Idle)> = Vec::with_capacity(idle.len());
    for session in idle {
        let count = counts.entry(session.owner.clone()).or_default();
        *count += 1;
        ranked.push((*count, session));
    }
    ranked.sort_by(|(rank, one), (other_rank, other)| {
        other_rank.cmp(rank).then(other.seconds.total_cmp(&one.seconds))
    });
    ranked.into_iter().map(|(_, session)| session.id).collect()
}

impl super::Shared {
    pub(super) fn has_memory(&self) -> Result<(), ServiceError> {
        match &self.budget {
            Some(budget) if budget.is_over(&self.runtime) => Err(ServiceError::Memory),
            _ => Ok(()),
        }
    }

    /// Memory of the process, if known, and its budget, in bytes.
    pub(super) fn memory(&self) -> (Option<u64>, Option<u64>) {
        (held(&self.runtime), self.budget.as_ref().map(|budget| budget.bytes))
    }
}

impl Budget {
    pub(super) fn new(runtime: &Runtime, bytes: u64) -> Result<Self, BudgetError> {
        let held = held(runtime).ok_or(BudgetError::Unknown)?;
        if held >= bytes {
            return Err(BudgetError::TooSmall {
                held,
                budget: bytes,
            });
        }
        Ok(Self {
            bytes,
            measured: Mutex::default(),
        })
    }

    /// Whether the process was over budget at the latest measurement.
    fn is_over(&self, runtime: &Runtime) -> bool {
        let measured = *lock(&self.measured);
        match measured {
            Some((when, held)) if when.elapsed() < STANDS => held > self.bytes,
            _ => self.measures_over(runtime),
        }
    }

    /// Measures whether the process is over budget.
    fn measures_over(&self, runtime: &Runtime) -> bool {
        // If the system stops reporting memory after the start, do not refuse everything.
        let held = held(runtime).unwrap_or_default();
        let mut measured = lock(&self.measured);
        *measured = Some((Instant::now(), held));
        held > self.bytes
    }
}

/// Memory of this process if known, in bytes: resident memory without file pages, plus session
/// states.
fn held(runtime: &Runtime) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    // Some kernels do not report anonymous memory separately.
    let own = field(&status, "RssAnon:").or_else(|| field(&status, "VmRSS:"))?;
    Some(own.saturating_add(runtime.sessions().memory()))
}

/// Resident memory in bytes, if known.
pub(super) fn resident() -> Option<u64> {
    field(&std::fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// A size in `/proc/self/status`.
fn field(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_most_sessions_in_memory_gives_them_up_first() {
        let idle = |id: &str, seconds| Idle {
            id: id.into(),
            owner: Some(id[..1].into()),
            seconds,
        };
        let all = vec![idle("a1", 5.0), idle("b1", 99.0), idle("a2", 7.0), idle("a3", 1.0)];
        assert_eq!(in_turn(all), ["a2", "a1", "b1", "a3"]);
        let one = vec![idle("a1", 5.0), idle("a2", 99.0), idle("a3", 7.0)];
        assert_eq!(in_turn(one), ["a2", "a3", "a1"]);
    }

    #[test]
    fn sizes_are_read_as_the_kernel_writes_them() {
        let status =
            "Name:\tbelljar\nVmRSS:\t    1234 kB\nRssAnon:\t     234 kB\nRssShmem:\t1 kB\n";
        assert_eq!(field(status, "VmRSS:"), Some(1234 << 10));
        assert_eq!(field(status, "RssAnon:"), Some(234 << 10));
        assert_eq!(field(status, "RssFile:"), None);
        assert_eq!(field("VmRSS:\tmany kB", "VmRSS:"), None);
    }
}
