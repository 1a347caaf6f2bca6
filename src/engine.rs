//! State shared by runs and sessions.

pub(crate) mod admission;
pub(crate) mod run;
pub(crate) mod running;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use belljar_passes::Tier;

use crate::api::policy::RunLimits;
use crate::api::request::ImageChoice;
use crate::artifact::image::{Image, Replaced};
use crate::engine::admission::{Starts, Turns};
use crate::error::Error;
use crate::image::{BakeError, ImageStore, tier_for};
use crate::sandbox::{Factory, Missing, Roots};

/// All state that outlives a run.
pub(crate) struct Engine {
    pub factory: Factory,
    pub images: ImageStore,
    /// Storage of sandboxes' files.
    pub roots: Roots,
    /// Parent of directories created for callers.
    pub temp_dir: Arc<Path>,
    pub defaults: RunLimits,
    pub ceilings: RunLimits,
    pub turns: Turns,
    pub starts: Starts,
    pub makers: Makers,
}

impl Engine {
    /// Like [`Turns::check_process`].
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        self.turns.check_process()
    }

    /// Returns the image that `choice` selects for `code`. An image that is not loaded is loaded or
    /// built on a blocking thread; an image in a bundle is loaded at once, since only its head is
    /// read.
    pub(crate) async fn image(
        self: &Arc<Self>,
        choice: &ImageChoice,
        code: &str,
    ) -> Result<Arc<Image>, Error> {
        let found;
        let is_named = matches!(choice, ImageChoice::Named(_));
        let name = if let ImageChoice::Named(name) = choice {
            name.as_str()
        } else if let Some(name) = self.images.for_code_at_once(code) {
            name
        } else {
            let (engine, code) = (Arc::clone(self), code.to_owned());
            found = on_blocking_thread(move || engine.images.for_code(&code).to_owned()).await?;
            &found
        };
        if let Some(image) = self.images.loaded(name) {
            self.foresee(code, &image).await?;
            return Ok(image);
        }
        if self.images.are_at_hand() {
            return Ok(self.images.ensure(&self.factory, name, is_named)?);
        }
        let (engine, own) = (Arc::clone(self), name.to_owned());
        let find =
            move || Ok::<_, BakeError>((engine.images.tier(&own)?, engine.images.replaced(&own)?));
        let (needed, replaced) = on_blocking_thread(find).await??;
        self.code(self.tier_for(code, &replaced, false).max(needed), false).await?;
        let maker = self.makers.turn(&format!("image {name}")).await;
        if let Some(image) = self.images.loaded(name) {
            drop(maker);
            self.foresee(code, &image).await?;
            return Ok(image);
        }
        let (engine, name) = (Arc::clone(self), name.to_owned());
        let made = maker.make(move || {
            let started = Instant::now();
            let made = engine.images.ensure(&engine.factory, &name, is_named);
            tracing::debug!(image = name, elapsed = ?started.elapsed(), "an image was loaded");
            made
        });
        let image = made.await??;
        self.foresee(code, &image).await?;
        Ok(image)
    }

    /// Loads the code of `tier`, which is compiled on a blocking thread if necessary. Images with
    /// extensions need code that is `open` for them.
    async fn code(self: &Arc<Self>, tier: Tier, open: bool) -> Result<(), Error> {
        if self.factory.suffices_of(tier, open) {
            return Ok(());
        }
        let name = if open {
            format!("open {tier}")
        } else {
            tier.name().to_owned()
        };
        let maker = self.makers.turn(&name).await;
        if self.factory.suffices_of(tier, open) {
            return Ok(());
        }
        let engine = Arc::clone(self);
        Ok(maker.make(move || engine.factory.ensure_of(tier, open)).await??)
    }

    /// Returns the tier that `code` needs, according to its import statements; the smallest tier if
    /// this makes no difference.
    fn tier_for(&self, code: &str, replaced: &[Replaced], open: bool) -> Tier {
        if self.factory.suffices_of(Tier::All, open) {
            return Tier::Core;
        }
        tier_for(code, replaced)
    }

    /// Loads the native code that `code` needs in an image, according to its import statements.
    pub(crate) async fn foresee(self: &Arc<Self>, code: &str, image: &Image) -> Result<(), Error> {
        let open = image.is_native();
        self.code(self.tier_for(code, &image.manifest.replaced, open), open).await
    }

    /// Loads the code that a run lacked, which is compiled on a blocking thread if necessary.
    /// Returns whether it is available now.
    pub(crate) async fn grow(self: &Arc<Self>, lacked: &Missing) -> bool {
        tracing::debug!(%lacked, "a run is begun again with more code");
        let tier = lacked.needs;
        match self.code(tier, lacked.open).await {
            Ok(()) => self.factory.tier_of(lacked.open) >= Some(tier),
            Err(error) => {
                tracing::warn!(%error, "the code that a run lacks is not to be had");
                false
            }
        }
    }
}

/// Serializes the creation of shared resources: one caller creates a resource, and the others wait
/// without a thread, however long it takes.
#[derive(Default)]
pub(crate) struct Makers(Mutex<HashMap<String, Weak<Turn>>>);

type Turn = tokio::sync::Mutex<()>;

impl Makers {
    /// Waits for the turn to create `what`. Another caller may have created it meanwhile.
    async fn turn(&self, what: &str) -> Maker {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| turn.strong_count() > 0);
            turns.get(what).and_then(Weak::upgrade).unwrap_or_else(|| {
                let turn = Arc::default();
                turns.insert(what.to_owned(), Arc::downgrade(&turn));
                turn
            })
        };
        Maker(turn.lock_owned().await)
    }
}

/// The turn to create a resource.
struct Maker(#[expect(dead_code, reason = "held until dropped")] tokio::sync::OwnedMutexGuard<()>);

impl Maker {
    /// Runs `work` on a blocking thread. The turn lasts until it is done, even if the caller stops
    /// waiting: otherwise each cancelled run would leave another thread behind.
    async fn make<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        on_blocking_thread(move || {
            let made = work();
            drop(self);
            made
        })
        .await
    }
}

/// Runs `work` on a blocking thread.
pub(crate) async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let (give, mut made) = tokio::sync::oneshot::channel();
    spawn_blocking(Box::new(move || drop(give.send(work()))))
        .await
        .map_err(Error::system("use a thread that may block"))?;
    Ok(made.try_recv().expect("work that did not panic has been answered"))
}

/// Not generic, so that tokio's tasks are compiled once and not for each kind of work.
fn spawn_blocking(work: Box<dyn FnOnce() + Send>) -> tokio::task::JoinHandle<()> {
    tokio::task::spawn_blocking(work)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_makes_it_at_a_time_also_if_it_gives_up() {
        let makers = Arc::new(Makers::default());
        let (busy, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let make = |what: &'static str| {
            let (makers, busy, most) = (Arc::clone(&makers), Arc::clone(&busy), Arc::clone(&most));
            tokio::spawn(async move {
                let work = move || {
                    most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(20));
                    busy.fetch_sub(1, Ordering::SeqCst);
                };
                makers.turn(what).await.make(work).await
            })
        };
        let first = make("a");
        while busy.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        first.abort();
        for task in [make("a"), make("a"), make("a")] {
            task.await.unwrap().unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 1);
        make("b").await.unwrap().unwrap();
        assert_eq!(makers.0.lock().unwrap().len(), 1, "nobody waits for the others any more");
    }
}
