//! The images of a cache, as they are listed, without an engine that could run them.

use std::path::PathBuf;

use crate::bakery::{Shelf, StoredImage};
use crate::cache::Cache;
use crate::doctor::file_size;
use crate::error::Error;
use crate::image::Manifest;

/// An image, as it is listed.
#[derive(Clone, Debug)]
pub struct ImageInfo {
    /// What is in it; `None` when it has yet to be made.
    pub manifest: Option<Manifest>,
    /// Its name.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// Its memory, in bytes.
    pub memory_bytes: u64,
    /// What its file takes on the disk, in bytes.
    pub disk_bytes: u64,
    /// Whether it comes with belljar.
    pub built_in: bool,
    /// Whether it is there and usable.
    pub ready: bool,
}

/// The images in a cache, looked at and removed without setting up an engine; see
/// [`RuntimeBuilder::images`](crate::RuntimeBuilder::images).
///
/// ```no_run
/// for image in belljar::Runtime::builder().images()?.list()? {
///     println!("{} takes {} bytes", image.name, image.disk_bytes);
/// }
/// # Ok::<(), belljar::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Images {
    shelf: Shelf,
}

impl Images {
    pub(crate) fn new(cache: Cache) -> Self {
        Self {
            shelf: Shelf::new(cache),
        }
    }

    /// All of them, the built-in ones first.
    ///
    /// # Errors
    ///
    /// When the cache cannot be read.
    pub fn list(&self) -> Result<Vec<ImageInfo>, Error> {
        Ok(self.shelf.list()?.into_iter().map(ImageInfo::from).collect())
    }

    /// One of them.
    ///
    /// # Errors
    ///
    /// When there is no such image.
    pub fn get(&self, name: &str) -> Result<ImageInfo, Error> {
        Ok(self.shelf.stored(name)?.into())
    }

    /// Removes one from the cache. A built-in one is made again when it is needed, and a runtime
    /// that has loaded it goes on with it.
    ///
    /// # Errors
    ///
    /// When there is no such image, or its files cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        Ok(self.shelf.remove(name)?)
    }
}

impl From<StoredImage> for ImageInfo {
    fn from(stored: StoredImage) -> Self {
        let (manifest, memory_bytes) = stored.head.unzip();
        Self {
            ready: manifest.is_some(),
            manifest,
            name: stored.name,
            memory_bytes: memory_bytes.unwrap_or(0),
            disk_bytes: file_size(&stored.path),
            path: stored.path,
            built_in: stored.built_in,
        }
    }
}
