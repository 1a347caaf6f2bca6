//! A budget of memory for the whole process. While the process holds more, nothing new begins, and sessions
//! that do nothing are suspended.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use belljar::Runtime;
use belljar::session::SessionStatus;

use super::Service;
use super::error::ServiceError;

/// How long a measurement stands, so that asking costs nothing.
const STANDS: Duration = Duration::from_millis(100);
/// How long suspending rests after it has tried all sessions: those that run may be done then.
const REST: Duration = Duration::from_secs(1);

/// The budget, and what was last measured.
pub(crate) struct Budget {
    bytes: u64,
    measured: Mutex<Option<(Instant, u64)>>,
}

/// A budget that cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// The system does not say how much memory a process holds.
    #[error("this system does not say how much memory the server holds")]
    Unknown,
    /// The server would never run anything.
    #[error("the server holds {} MiB itself, and its budget is {} MiB", .held >> 20, .budget >> 20)]
    TooSmall {
        /// Bytes that the process holds before it has done anything.
        held: u64,
        /// Bytes that it was to hold at most.
        budget: u64,
    },
}

impl Service {
    /// Whether there is memory for anything new.
    ///
    /// # Errors
    ///
    /// [`ServiceError::Memory`] when there is not.
    pub(crate) fn has_memory(&self) -> Result<(), ServiceError> {
        self.shared.has_memory()
    }

    /// Gives back what is free whenever the process holds too much memory, and suspends sessions that do
    /// nothing. It never ends; without a budget it does nothing.
    pub(crate) async fn relieve(&self) {
        let Some(budget) = &self.shared.budget else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(STANDS).await;
            if budget.is_over(&self.shared.runtime) {
                // What requests took that are over is free, and still counts as the process's.
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
        tracing::info!(suspended, "the server holds too much memory");
    }
}

/// A session that does nothing.
struct Idle {
    id: String,
    /// Whose it is. Of one that is in a store, the store knows it.
    owner: Option<String>,
    seconds: f64,
}

/// Which sessions are suspended first: of those who have most in memory that used longest ago, so that
/// who has few keeps them.
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

    /// Bytes of memory that the process holds, where the system tells, and those that it may.
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

    /// Whether the process held too much a moment ago.
    fn is_over(&self, runtime: &Runtime) -> bool {
        let measured = *self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        match measured {
            Some((when, held)) if when.elapsed() < STANDS => held > self.bytes,
            _ => self.measures_over(runtime),
        }
    }

    /// Whether it does now.
    fn measures_over(&self, runtime: &Runtime) -> bool {
        // That it was told when the server started, and is not any more, is no reason to refuse everything.
        let held = held(runtime).unwrap_or_default();
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        *measured = Some((Instant::now(), held));
        held > self.bytes
    }
}

/// Bytes of memory that this process holds, where the system tells: what is resident without pages of files,
/// and the states of sessions.
fn held(runtime: &Runtime) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    // Some kernels do not tell them apart.
    let own = field(&status, "RssAnon:").or_else(|| field(&status, "VmRSS:"))?;
    Some(own.saturating_add(runtime.sessions().memory()))
}

/// Bytes of memory that are resident, where the system tells.
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
