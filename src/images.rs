//! Images: listed, removed, and made.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bakery::{Shelf, StoredImage, bundled};
use crate::bundle::Bundle;
use crate::cache::Cache;
use crate::doctor::file_size;
use crate::error::Error;
use crate::module::Tier;
use crate::shared::Engine;

/// An image, as it is listed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ImageInfo {
    /// Its name.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// Whether it comes with belljar.
    pub built_in: bool,
    /// The tier of native code that runs of it take; in a bundle that of the bundle. `None` where the
    /// recipe of one that it was made from is not there any more.
    pub tier: Option<Tier>,
    /// What is in it; `None` when it has yet to be made.
    pub contents: Option<ImageContents>,
    /// What its file takes on the disk, in bytes.
    pub disk_bytes: u64,
}

/// What is in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageContents {
    /// One sentence for people.
    pub description: String,
    /// The image it was made from.
    pub base: Option<String>,
    /// Modules imported in it, by the names a program would import.
    pub imports: Vec<String>,
    /// Packages added to it, as `name==version`.
    pub packages: Vec<String>,
    /// Its memory, in bytes.
    pub memory_bytes: u64,
}

/// Which image it is, whatever its name says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageIdentity {
    /// Its name.
    pub name: String,
    /// SHA-256 of its memory, in hexadecimal: the same on every machine.
    pub memory: String,
    /// SHA-256 of the module of Python that it was made from, in hexadecimal.
    pub artifact: String,
}

/// The images in a cache: those of a [`Runtime`](crate::Runtime::images), or, without setting up
/// an engine before one is to be made, those of a
/// [`RuntimeBuilder`](crate::RuntimeBuilder::images). Every method blocks.
///
/// ```no_run
/// for image in belljar::Runtime::builder().images()?.list()? {
///     println!("{} takes {} bytes", image.name, image.disk_bytes);
/// }
/// # Ok::<(), belljar::Error>(())
/// ```
#[derive(Clone)]
pub struct Images {
    origin: Origin,
}

/// Where images are made.
#[derive(Clone)]
enum Origin {
    Engine(Arc<Engine>),
    /// Nowhere yet.
    Cache(Shelf, Arc<Setup>),
    /// Nowhere: they are in a bundle.
    Bundle(Arc<Bundle>, Arc<Setup>),
}

/// Sets an engine up.
type Setup = dyn Fn() -> Result<Arc<Engine>, Error> + Send + Sync;

impl Images {
    pub(crate) fn of(engine: Arc<Engine>) -> Self {
        Self {
            origin: Origin::Engine(engine),
        }
    }

    pub(crate) fn before(cache: Cache, set_up: Arc<Setup>) -> Self {
        Self {
            origin: Origin::Cache(Shelf::new(cache), set_up),
        }
    }

    pub(crate) fn in_bundle(bundle: Arc<Bundle>, set_up: Arc<Setup>) -> Self {
        Self {
            origin: Origin::Bundle(bundle, set_up),
        }
    }

    /// All of them, the built-in ones first.
    ///
    /// # Errors
    ///
    /// When the cache cannot be read.
    pub fn list(&self) -> Result<Vec<ImageInfo>, Error> {
        let stored = match &self.origin {
            Origin::Engine(_) => self.engine()?.images.list()?,
            Origin::Cache(kept, _) => kept.list()?,
            Origin::Bundle(bundle, _) => bundled::list(bundle),
        };
        Ok(stored.into_iter().map(ImageInfo::of).collect())
    }

    /// One of them.
    ///
    /// # Errors
    ///
    /// When there is no such image.
    pub fn get(&self, name: &str) -> Result<ImageInfo, Error> {
        let stored = match &self.origin {
            Origin::Engine(_) => self.engine()?.images.stored(name)?,
            Origin::Cache(kept, _) => kept.stored(name)?,
            Origin::Bundle(bundle, _) => bundled::stored(bundle, name)?,
        };
        Ok(ImageInfo::of(stored))
    }

    /// Removes one from the cache. A built-in one is made again when it is needed, and another
    /// runtime that has loaded it goes on with it.
    ///
    /// # Errors
    ///
    /// When there is no such image, or its files cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        match &self.origin {
            Origin::Engine(_) => self.engine()?.images.remove(name)?,
            Origin::Cache(kept, _) => kept.remove(name)?,
            Origin::Bundle(bundle, _) => {
                return Err(bundled::fixed(bundle, "remove an image").into());
            }
        }
        Ok(())
    }

    /// Loads one, making it first if need be, so that no run has to.
    ///
    /// # Errors
    ///
    /// When there is no such image, or it cannot be made.
    pub fn prepare(&self, name: &str) -> Result<(), Error> {
        let engine = self.engine()?;
        engine.images.ensure(&engine.factory, name)?;
        Ok(())
    }

    /// Makes one from a recipe file, again if it was there already.
    ///
    /// # Errors
    ///
    /// When the recipe is not valid, its packages cannot be had, or its code fails.
    pub fn build(&self, recipe: &Path) -> Result<ImageInfo, Error> {
        let engine = self.engine()?;
        Ok(ImageInfo::of(engine.images.build(&engine.factory, recipe)?))
    }

    fn engine(&self) -> Result<Arc<Engine>, Error> {
        match &self.origin {
            Origin::Engine(engine) => {
                engine.check_process()?;
                Ok(Arc::clone(engine))
            }
            Origin::Cache(_, set_up) | Origin::Bundle(_, set_up) => set_up(),
        }
    }
}

impl ImageInfo {
    fn of(stored: StoredImage) -> Self {
        Self {
            contents: stored.head.map(|(manifest, memory_bytes)| ImageContents {
                description: manifest.description,
                base: manifest.base,
                imports: manifest.imports,
                packages: manifest.packages,
                memory_bytes,
            }),
            name: stored.name,
            disk_bytes: file_size(&stored.path),
            path: stored.path,
            built_in: stored.built_in,
            tier: stored.tier,
        }
    }
}
