//! The images of a cache directory as files: found, described, removed. This needs no engine.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::bake::{BakeError, LockedPackage, StoredRecipe};
use super::recipe::Recipe;
use super::{BUILT_IN, ImageError, Manifest, inspect};
use crate::cache::{Cache, CacheError, seal};

/// The image that the built-in ones start from: the artifact as it comes.
pub(super) const BOOT: &str = "boot";

/// Image files by name.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    cache: Cache,
}

/// What is known of an image without loading it.
#[derive(Clone, Debug)]
pub(crate) struct StoredImage {
    pub name: String,
    pub path: PathBuf,
    pub built_in: bool,
    /// `None` when it is yet to be made, or when its file cannot be used.
    pub head: Option<(Manifest, u64)>,
}

impl Shelf {
    pub(crate) fn new(cache: Cache) -> Self {
        Self { cache }
    }

    /// All images, the built-in ones first, then by name.
    pub(crate) fn list(&self) -> Result<Vec<StoredImage>, ImageError> {
        self.names()?.iter().map(|name| self.stored(name)).collect()
    }

    /// One image.
    pub(crate) fn stored(&self, name: &str) -> Result<StoredImage, ImageError> {
        let known = self.names()?;
        if !known.iter().any(|n| n == name) {
            return Err(ImageError::Unknown {
                name: name.to_owned(),
                known,
            });
        }
        let path = self.path(name)?;
        let usable = seal::check(&path).is_ok();
        Ok(StoredImage {
            name: name.to_owned(),
            built_in: is_built_in(name),
            head: inspect(&path).ok().filter(|_| usable),
            path,
        })
    }

    /// Removes an image. A built-in one is made again when it is needed.
    pub(crate) fn remove(&self, name: &str) -> Result<(), ImageError> {
        let stored = self.stored(name)?;
        seal::remove(&stored.path)?;
        seal::remove(&self.recipe_path(name)?)?;
        if let Some(dir) = stored.head.and_then(|(manifest, _)| manifest.package_dir) {
            let path = self.cache.dir("packages")?.join(dir);
            match fs::remove_dir_all(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(CacheError::io("remove", &path)(e).into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The recipe of an image, and the packages that were locked for it.
    pub(super) fn recipe(&self, name: &str) -> Result<(Recipe, Vec<LockedPackage>), BakeError> {
        if let Some(recipe) = BUILT_IN.iter().find(|recipe| recipe.name == name) {
            return Ok((recipe.clone(), Vec::new()));
        }
        // A name that comes from a file must not lead to another directory.
        let known = self.names()?;
        let is_known = known.iter().any(|known| known == name);
        let unknown = || ImageError::Unknown {
            name: name.to_owned(),
            known,
        };
        if !is_known {
            return Err(unknown().into());
        }
        let path = self.recipe_path(name)?;
        let text = fs::read(&path).ok();
        let Some(stored) = text.and_then(|text| serde_json::from_slice::<StoredRecipe>(&text).ok())
        else {
            return Err(unknown().into());
        };
        Ok((Recipe::parse(&stored.recipe, &path)?, stored.packages))
    }

    fn names(&self) -> Result<Vec<String>, ImageError> {
        let dir = self.cache.dir("images")?;
        let mut own: Vec<String> = fs::read_dir(&dir)
            .map_err(CacheError::io("list", &dir))?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| Some(name.strip_suffix(".recipe")?.to_owned()))
            .collect();
        own.sort();
        let mut names: Vec<String> = BUILT_IN.iter().map(|r| r.name.clone()).collect();
        names.append(&mut own);
        Ok(names)
    }

    pub(super) fn path(&self, name: &str) -> Result<PathBuf, CacheError> {
        Ok(self.cache.dir("images")?.join(format!("{name}.image")))
    }

    pub(super) fn recipe_path(&self, name: &str) -> Result<PathBuf, CacheError> {
        Ok(self.cache.dir("images")?.join(format!("{name}.recipe")))
    }
}

pub(super) fn is_built_in(name: &str) -> bool {
    BUILT_IN.iter().any(|recipe| recipe.name == name)
}
