//! A store that fails at chosen operations.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;

use super::clock::Clock;
use super::world::LEASE;
use crate::store::{Answer, Blob, Condition, Entry, MemoryStore, Put, Store, StoreError};

/// What happens to one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It fails without an effect.
    Before,
    /// It takes effect, and then reports an error.
    After,
    /// It takes effect, and is answered after one and a half leases.
    Late,
    /// It fails, and takes effect a little later.
    Deferred,
    /// It is applied twice, like a client's retry; the second answer counts.
    Twice,
    /// It takes effect, and reports an error after four leases.
    Lost,
}

impl Fault {
    pub(super) const ALL: [Self; 6] =
        [Self::Before, Self::After, Self::Late, Self::Deferred, Self::Twice, Self::Lost];
}

/// An operation that can be repeated.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Get(String, u64),
    Put(String, Bytes, Condition),
    List(String),
    Delete(String),
}

/// The answer to an operation.
pub(super) enum Said {
    Found(Option<Blob>),
    Put(Put),
    Listed(Vec<Entry>),
    Deleted,
}

impl Asked {
    pub(super) async fn of(self, store: &dyn Store) -> Result<Said, StoreError> {
        Ok(match self {
            Self::Get(key, max) => Said::Found(store.get(&key, max).await?),
            Self::Put(key, bytes, condition) => Said::Put(store.put(&key, bytes, condition).await?),
            Self::List(folder) => Said::Listed(store.list(&folder).await?),
            Self::Delete(key) => {
                store.delete(&key).await?;
                Said::Deleted
            }
        })
    }
}

/// The connection between a node and its store.
pub(super) trait Wire: std::fmt::Debug + Send + Sync {
    fn ask(&self, asked: Asked) -> Answer<'_, Said>;
}

pub(super) fn failed() -> StoreError {
    StoreError::failed("reach", "it")("the store is away")
}

/// A store behind a connection.
#[derive(Debug)]
pub(super) struct Wired<W>(pub W);

impl<W: Wire> Store for Wired<W> {
    fn get<'a>(&'a self, key: &'a str, max: u64) -> Answer<'a, Option<Blob>> {
        Box::pin(async move {
            match self.0.ask(Asked::Get(key.into(), max)).await? {
                Said::Found(found) => Ok(found),
                _ => unreachable!(),
            }
        })
    }

    fn put<'a>(&'a self, key: &'a str, bytes: Bytes, condition: Condition) -> Answer<'a, Put> {
        Box::pin(async move {
            match self.0.ask(Asked::Put(key.into(), bytes, condition)).await? {
                Said::Put(put) => Ok(put),
                _ => unreachable!(),
            }
        })
    }

    fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Entry>> {
        Box::pin(async move {
            match self.0.ask(Asked::List(folder.into())).await? {
                Said::Listed(listed) => Ok(listed),
                _ => unreachable!(),
            }
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        Box::pin(async move { self.0.ask(Asked::Delete(key.into())).await.map(drop) })
    }
}

/// Numbers all operations, and makes some of them fail.
pub(super) struct Planned {
    store: Arc<MemoryStore>,
    clock: Arc<Clock>,
    plan: Mutex<(usize, HashMap<usize, Fault>)>,
}

impl std::fmt::Debug for Planned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Planned")
    }
}

impl Planned {
    pub(super) fn new(clock: &Arc<Clock>, plan: HashMap<usize, Fault>) -> Self {
        Self {
            store: Arc::default(),
            clock: Arc::clone(clock),
            plan: Mutex::new((0, plan)),
        }
    }

    /// Returns the number of operations so far.
    pub(super) fn count(&self) -> usize {
        self.plan.lock().unwrap().0
    }

    /// Stops all failures.
    pub(super) fn heal(&self) {
        self.plan.lock().unwrap().1.clear();
    }
}

impl Wire for Planned {
    fn ask(&self, asked: Asked) -> Answer<'_, Said> {
        let fault = {
            let mut plan = self.plan.lock().unwrap();
            plan.0 += 1;
            let number = plan.0 - 1;
            plan.1.get(&number).copied()
        };
        Box::pin(async move {
            self.clock.sleep(Duration::from_millis(1)).await;
            let store = &*self.store;
            match fault {
                None => asked.of(store).await,
                Some(Fault::Before) => Err(failed()),
                Some(Fault::After) => {
                    asked.of(store).await?;
                    Err(failed())
                }
                Some(Fault::Late) => {
                    let said = asked.of(store).await;
                    self.clock.sleep(LEASE * 3 / 2).await;
                    said
                }
                Some(Fault::Deferred) => {
                    let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
                    tokio::spawn(async move {
                        clock.sleep(LEASE / 20).await;
                        let _ = asked.of(&*store).await;
                    });
                    Err(failed())
                }
                Some(Fault::Twice) => {
                    asked.clone().of(store).await?;
                    asked.of(store).await
                }
                Some(Fault::Lost) => {
                    asked.of(store).await?;
                    self.clock.sleep(4 * LEASE).await;
                    Err(failed())
                }
            }
        })
    }
}
