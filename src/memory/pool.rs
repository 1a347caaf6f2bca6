//! Keeps regions between sandboxes, so that starting one maps nothing and faults in little.
//!
//! A region is put back to its image's state on a thread of the pool, after the outcome of its
//! last run is on its way.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::sys::Extent;
use super::{Backing, MemoryError, Process, Region};

/// Regions that wait for their next sandbox.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    /// Where its thread is. In a process that was forked from this one nobody cleans, and a lock may
    /// never be given back.
    process: Process,
}

#[derive(Debug)]
struct Shared {
    idle: Mutex<Idle>,
    /// Signals a used region, and the pool's end.
    used: Condvar,
    most_idle: usize,
}

#[derive(Debug, Default)]
struct Idle {
    /// As their images are.
    clean: Vec<Region>,
    /// As their sandboxes left them.
    used: Vec<Region>,
    /// Whether the thread that cleans has been started.
    cleaning: bool,
    closed: bool,
}

impl Pool {
    /// A pool that keeps at most `most_idle` regions. An idle region holds the 1 to 16 MiB that
    /// its last sandbox wrote.
    pub(crate) fn new(most_idle: usize) -> Arc<Self> {
        let shared = Shared {
            idle: Mutex::default(),
            used: Condvar::new(),
            most_idle,
        };
        Arc::new(Self {
            shared: Arc::new(shared),
            process: Process::current(),
        })
    }

    /// A slot with `image` in it: one that held it before, else another, else a new one.
    pub(crate) fn acquire(self: &Arc<Self>, image: &Arc<Backing>) -> Result<Slot, MemoryError> {
        let region = match self.shared.lock().take(image, self.shared.most_idle) {
            Taken::Clean(region) => region,
            Taken::Used(mut region) if region.holds(image) => {
                region.reset()?;
                region
            }
            Taken::Used(mut region) => {
                region.map(image)?;
                region
            }
            Taken::None => {
                let mut region = Region::reserve()?;
                region.map(image)?;
                region
            }
        };
        Ok(Slot {
            region: Some(region),
            pool: Some(Arc::clone(self)),
        })
    }

    fn give_back(&self, region: Region) {
        if !self.process.is_current() {
            return;
        }
        let mut idle = self.shared.lock();
        if idle.clean.len() + idle.used.len() >= self.shared.most_idle {
            drop(idle);
            drop(region);
            return;
        }
        idle.used.push(region);
        if !idle.cleaning {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("belljar-memory".into());
            // Without a thread, used regions are cleaned when they are needed again.
            idle.cleaning = thread.spawn(move || shared.clean()).is_ok();
        }
        drop(idle);
        self.shared.used.notify_one();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if !self.process.is_current() {
            return;
        }
        self.shared.lock().closed = true;
        self.shared.used.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts used regions back to their images' state, until the pool is gone.
    fn clean(&self) {
        let mut idle = self.lock();
        while !idle.closed {
            let Some(mut region) = idle.used.pop() else {
                idle = self.used.wait(idle).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(idle);
            let clean = region.reset().is_ok();
            idle = self.lock();
            if clean {
                idle.clean.push(region);
            }
        }
    }
}

enum Taken {
    Clean(Region),
    Used(Region),
    None,
}

impl Idle {
    fn take(&mut self, image: &Arc<Backing>, most_idle: usize) -> Taken {
        let holding = |regions: &[Region]| regions.iter().rposition(|r| r.holds(image));
        if let Some(index) = holding(&self.clean) {
            return Taken::Clean(self.clean.swap_remove(index));
        }
        if let Some(index) = holding(&self.used) {
            return Taken::Used(self.used.swap_remove(index));
        }
        // None holds this image: rather than keep more, remap one that holds another.
        if self.clean.len() + self.used.len() >= most_idle {
            return self.clean.pop().or_else(|| self.used.pop()).map_or(Taken::None, Taken::Used);
        }
        Taken::None
    }
}

/// One sandbox's memory; it goes back to its pool when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    /// `None` only while dropping.
    region: Option<Region>,
    /// `None` for a region that is not reused.
    pool: Option<Arc<Pool>>,
}

impl Slot {
    /// A slot of its own for a guest that is kept: no page in it but the image's, and later what
    /// the guest wrote, and none left by others.
    pub(crate) fn lasting(image: &Arc<Backing>) -> Result<Self, MemoryError> {
        let mut region = Region::reserve()?;
        region.map(image)?;
        Ok(Self {
            region: Some(region),
            pool: None,
        })
    }

    /// Leave to map pages into its memory, where that can be.
    pub(crate) fn extent(&self) -> Option<Extent> {
        self.region().extent()
    }

    pub(crate) fn region(&self) -> &Region {
        self.region.as_ref().expect("a slot has its region until it is dropped")
    }

    pub(crate) fn region_mut(&mut self) -> &mut Region {
        self.region.as_mut().expect("a slot has its region until it is dropped")
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let (Some(region), Some(pool)) = (self.region.take(), &self.pool) {
            pool.give_back(region);
        }
    }
}
