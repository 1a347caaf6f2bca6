//! Lists, removes and builds images.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_passes::Tier;

use crate::artifact::bundle::Bundle;
use crate::artifact::cache::Cache;
use crate::engine::Engine;
use crate::error::Error;
use crate::image::{PackageBuilder, Shelf, StoredImage, bundled};
use crate::runtime::doctor::file_size;

/// An image in a list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ImageInfo {
    /// Name of the image.
    pub name: String,
    /// Path of the image file.
    pub path: PathBuf,
    /// Whether the image is built into belljar.
    pub built_in: bool,
    /// Tier of native code that runs of the image use; in a bundle, the bundle's tier. `None` if a
    /// recipe that the image is based on is missing.
    pub tier: Option<Tier>,
    /// Contents of the image; `None` if it is not built yet.
    pub contents: Option<ImageContents>,
    /// Size of the file on disk, in bytes.
    pub disk_bytes: u64,
}

/// Contents of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageContents {
    /// Description in one sentence.
    pub description: String,
    /// The image that this image is based on.
    pub base: Option<String>,
    /// Imported modules, by the names that a program would import.
    pub imports: Vec<String>,
    /// Additional packages, as `name==version`.
    pub packages: Vec<String>,
    /// Size of the memory, in bytes.
    pub memory_bytes: u64,
}

/// Identifies an image independently of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageIdentity {
    /// Name of the image.
    pub name: String,
    /// SHA-256 of the memory, in hexadecimal. It is the same on every machine.
    pub memory: String,
    /// SHA-256 of the Python module that the image was built from, in hexadecimal.
    pub artifact: String,
}

/// The images in a cache, obtained from [`Runtime::images`](crate::Runtime::images) or
/// [`RuntimeBuilder::images`](crate::RuntimeBuilder::images). The latter sets up an engine only
/// when an image must be built. All methods block.
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

/// Where images are built.
#[derive(Clone)]
enum Origin {
    Engine(Arc<Engine>),
    /// In the cache; the engine is not set up yet.
    Cache(Shelf, Arc<Setup>),
    /// Images in a bundle are never built.
    Bundle(Arc<Bundle>, Arc<Setup>),
}

/// Sets up an engine.
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

    /// Returns all images, built-in images first.
    ///
    /// # Errors
    ///
    /// If the cache cannot be read.
    pub fn list(&self) -> Result<Vec<ImageInfo>, Error> {
        let stored = match &self.origin {
            Origin::Engine(_) => self.engine()?.images.list()?,
            Origin::Cache(kept, _) => kept.list()?,
            Origin::Bundle(bundle, _) => bundled::list(bundle),
        };
        Ok(stored.into_iter().map(ImageInfo::of).collect())
    }

    /// Returns an image.
    ///
    /// # Errors
    ///
    /// If the image does not exist.
    pub fn get(&self, name: &str) -> Result<ImageInfo, Error> {
        let stored = match &self.origin {
            Origin::Engine(_) => self.engine()?.images.stored(name)?,
            Origin::Cache(kept, _) => kept.stored(name)?,
            Origin::Bundle(bundle, _) => bundled::stored(bundle, name)?,
        };
        Ok(ImageInfo::of(stored))
    }

    /// Removes an image from the cache. A built-in image is rebuilt when it is needed. Other
    /// runtimes that have loaded the image continue to use it.
    ///
    /// # Errors
    ///
    /// If the image does not exist, or its files cannot be removed.
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

    /// Loads an image, and builds it first if necessary, so that runs need not wait for it.
    ///
    /// # Errors
    ///
    /// If the image does not exist or cannot be built.
    pub fn prepare(&self, name: &str) -> Result<(), Error> {
        let engine = self.engine()?;
        engine.images.ensure(&engine.factory, name, true)?;
        Ok(())
    }

    /// Builds an image from a recipe file and replaces an existing image of the same name.
    ///
    /// # Errors
    ///
    /// If the recipe is invalid, its packages are not available, or its code fails.
    pub fn build(&self, recipe: &Path) -> Result<ImageInfo, Error> {
        let engine = self.engine()?;
        Ok(ImageInfo::of(engine.images.build(&engine.factory, recipe, None)?))
    }

    /// Does the same, and has packages built that the package index has no pure Python wheel of.
    ///
    /// # Errors
    ///
    /// As for [`build`](Self::build), or if a package cannot be built.
    pub fn build_with(
        &self,
        recipe: &Path,
        builder: &dyn PackageBuilder,
    ) -> Result<ImageInfo, Error> {
        let engine = self.engine()?;
        Ok(ImageInfo::of(engine.images.build(&engine.factory, recipe, Some(builder))?))
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
