//! The engine: what runs and sessions share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::Error;
use crate::image::{Image, ImageStore, choose};
use crate::instance::Factory;
use crate::policy::Bounds;
use crate::request::ImageChoice;
use crate::workspace::Workspaces;

/// Everything that outlives a run.
pub(crate) struct Engine {
    pub factory: Factory,
    pub images: ImageStore,
    pub workspaces: Arc<Workspaces>,
    pub defaults: Bounds,
    pub ceilings: Bounds,
    places: Semaphore,
    waiting: AtomicUsize,
    queue: usize,
}

impl Engine {
    /// An engine in which at most `concurrency` runs go on at once, and at most `queue` wait.
    pub(crate) fn new(
        factory: Factory,
        images: ImageStore,
        workspaces: Arc<Workspaces>,
        (defaults, ceilings): (Bounds, Bounds),
        (concurrency, queue): (usize, usize),
    ) -> Arc<Self> {
        Arc::new(Self {
            factory,
            images,
            workspaces,
            defaults,
            ceilings,
            places: Semaphore::new(concurrency),
            waiting: AtomicUsize::new(0),
            queue,
        })
    }

    /// Waits for a place among the runs, in order.
    pub(crate) async fn place(&self) -> Result<SemaphorePermit<'_>, Error> {
        if let Ok(place) = self.places.try_acquire() {
            return Ok(place);
        }
        let waiting = Waiting::enter(&self.waiting);
        tracing::debug!(before = waiting.before, "a run waits for others");
        if waiting.before >= self.queue {
            return Err(Error::Busy {
                waiting: waiting.before,
            });
        }
        Ok(self.places.acquire().await.expect("the semaphore is never closed"))
    }

    /// The image that `choice` means for `code`. One that is not loaded yet is loaded, or made, on
    /// a thread that may block.
    pub(crate) async fn image(
        self: &Arc<Self>,
        choice: &ImageChoice,
        code: &str,
    ) -> Result<Arc<Image>, Error> {
        let name = match choice {
            ImageChoice::Auto => choose(code),
            ImageChoice::Named(name) => name.as_str(),
        };
        if let Some(image) = self.images.loaded(name) {
            return Ok(image);
        }
        let (engine, name) = (Arc::clone(self), name.to_owned());
        let made = tokio::task::spawn_blocking(move || {
            let started = Instant::now();
            let made = engine.images.ensure(&engine.factory, &name);
            tracing::debug!(image = name, elapsed = ?started.elapsed(), "an image was loaded");
            made
        });
        Ok(made.await.map_err(Error::system("load an image on a thread"))??)
    }
}

/// Counts a waiting run, for as long as it waits.
struct Waiting<'a> {
    count: &'a AtomicUsize,
    before: usize,
}

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        let before = count.fetch_add(1, Ordering::AcqRel);
        Self { count, before }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
    }
}
