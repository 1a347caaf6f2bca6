//! What runs and sessions share.

use std::sync::Arc;
use std::time::Instant;

use crate::api::policy::Bounds;
use crate::api::request::ImageChoice;
use crate::bakery::{ImageStore, choose, tier_for};
use crate::error::Error;
use crate::image::Image;
use crate::instance::{Factory, Missing};
use crate::module::Tier;
use crate::turns::{Starts, Turns};
use crate::workspace::Workspaces;

/// Everything that outlives a run.
pub(crate) struct Engine {
    pub factory: Factory,
    pub images: ImageStore,
    pub workspaces: Arc<Workspaces>,
    pub defaults: Bounds,
    pub ceilings: Bounds,
    pub turns: Turns,
    pub starts: Starts,
}

impl Engine {
    /// As for [`Turns::check_process`].
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        self.turns.check_process()
    }

    /// The image that `choice` means for `code`. One that is not loaded yet is loaded, or made, on
    /// a thread that may block; one of a bundle, of which only the head is read, at once.
    pub(crate) async fn image(
        self: &Arc<Self>,
        choice: &ImageChoice,
        code: &str,
    ) -> Result<Arc<Image>, Error> {
        let name = match choice {
            ImageChoice::Auto => self.images.nearest(choose(code)),
            ImageChoice::Named(name) => name.as_str(),
        };
        let tier = self.tier_for(code);
        if self.factory.suffices(tier)
            && let Some(image) = self.images.loaded(name)
        {
            return Ok(image);
        }
        if self.images.are_at_hand() {
            return Ok(self.images.ensure(&self.factory, name)?);
        }
        let (engine, name) = (Arc::clone(self), name.to_owned());
        let made = on_blocking_thread(move || {
            let started = Instant::now();
            engine.factory.ensure(tier.max(engine.images.tier(&name)?))?;
            let made = engine.images.ensure(&engine.factory, &name);
            tracing::debug!(image = name, elapsed = ?started.elapsed(), "an image was loaded");
            made
        });
        Ok(made.await??)
    }

    /// The tier that `code` needs, as far as its import statements tell; the smallest where that makes
    /// no difference.
    fn tier_for(&self, code: &str) -> Tier {
        if self.factory.suffices(Tier::All) {
            return Tier::Core;
        }
        tier_for(code)
    }

    /// Sees to the native code that `code` needs, as far as its import statements tell.
    pub(crate) async fn foresee(self: &Arc<Self>, code: &str) -> Result<(), Error> {
        let tier = self.tier_for(code);
        if self.factory.suffices(tier) {
            return Ok(());
        }
        let engine = Arc::clone(self);
        Ok(on_blocking_thread(move || engine.factory.ensure(tier)).await??)
    }

    /// Sees to the code that a run lacked; whether it is there now. It is compiled on a thread that may
    /// block.
    pub(crate) async fn grow(self: &Arc<Self>, lacked: &Missing) -> bool {
        let engine = Arc::clone(self);
        tracing::debug!(%lacked, "a run is begun again with more code");
        let tier = lacked.needs;
        match on_blocking_thread(move || engine.factory.ensure(tier)).await {
            Ok(Ok(())) => self.factory.tier() >= Some(tier),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the code that a run lacks is not to be had");
                false
            }
            Err(_) => false,
        }
    }
}

/// Runs `work` on a thread that may block.
pub(crate) async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(Error::system("use a thread that may block"))
}
