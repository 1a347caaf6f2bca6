//! The image files in a cache directory: finds, describes and removes them. Needs no engine.

use std::fs;
use std::io;
use std::path::PathBuf;

use belljar_passes::Tier;

use super::bake::{self, LockedPackage, StoredRecipe};
use super::choose::{BUILT_IN, tier_for};
use super::error::BakeError;
use super::recipe::Recipe;
use crate::artifact::cache::{Cache, CacheError, seal};
use crate::artifact::image::{ImageError, Manifest, inspect};

/// The base of the built-in images: the unchanged artifact.
pub(super) const BOOT: &str = "boot";

/// Image files by name.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    cache: Cache,
}

/// Description of an image that is not loaded.
#[derive(Clone, Debug)]
pub(crate) struct StoredImage {
    pub name: String,
    pub path: PathBuf,
    pub built_in: bool,
    /// Tier of code that it needs, if known.
    pub tier: Option<Tier>,
    /// `None` if the image is not built yet, or its file is unusable.
    pub head: Option<(Manifest, u64)>,
}

impl Shelf {
    pub(crate) fn new(cache: Cache) -> Self {
        Self { cache }
    }

    /// Lists all images, built-in images first, then by name.
    pub(crate) fn list(&self) -> Result<Vec<StoredImage>, ImageError> {
        self.names()?.iter().map(|name| self.stored(name)).collect()
    }

    /// Returns one image.
    pub(crate) fn stored(&self, name: &str) -> Result<StoredImage, ImageError> {
        self.check(name)?;
        Ok(self.describe(name))
    }

    /// Removes an image. A built-in image is rebuilt when it is needed.
    pub(crate) fn remove(&self, name: &str) -> Result<(), ImageError> {
        match self.check(name) {
            // Remaining files are removed, too.
            Ok(()) | Err(ImageError::Recipe { .. }) => {}
            Err(error) => return Err(error),
        }
        let packages = self.kept(name).map(|stored| stored.packages).unwrap_or_default();
        let directory = self.directory();
        seal::remove(&directory.join(image_file(name)))?;
        seal::remove(&directory.join(recipe_file(name)))?;
        self.remove_packages(&packages)
    }

    /// Removes the packages of a removed image, except those that other images use.
    fn remove_packages(&self, packages: &[LockedPackage]) -> Result<(), ImageError> {
        let others: Vec<Vec<LockedPackage>> =
            self.every_name()?.iter().filter_map(|name| Some(self.kept(name)?.packages)).collect();
        if !others.iter().any(|other| other == packages) {
            bake::remove(&self.cache, packages)?;
        }
        for package in packages {
            if !others.iter().any(|other| other.contains(package)) {
                let wheel = package.wheel(&self.cache);
                match fs::remove_file(&wheel) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => {
                        return Err(CacheError::io("remove", &wheel)(e).into());
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Returns the recipe of an image, with its locked packages.
    pub(super) fn recipe(&self, name: &str) -> Result<(Recipe, Vec<LockedPackage>), BakeError> {
        if let Some(recipe) = BUILT_IN.iter().find(|recipe| recipe.name == name) {
            return Ok((recipe.clone(), Vec::new()));
        }
        // A name from a file must not lead to another directory.
        self.check(name)?;
        let unreadable = || ImageError::Recipe {
            name: name.to_owned(),
        };
        let stored = self.kept(name).ok_or_else(unreadable)?;
        let path = self.recipe_path(name)?;
        Ok((Recipe::parse(&stored.recipe, &path)?, stored.packages))
    }

    /// Returns the smallest tier that an image needs, according to the imports of its recipe and
    /// its bases.
    pub(super) fn tier(&self, name: &str) -> Result<Tier, BakeError> {
        let mut tier = Tier::Core;
        let mut name = name.to_owned();
        while name != BOOT && tier != Tier::All {
            let (recipe, _) = self.recipe(&name)?;
            let code = [recipe.import_code(), recipe.warm_up].join("\n");
            tier = tier.max(tier_for(&code));
            name = recipe.base;
        }
        Ok(tier)
    }

    /// Returns the names of all images, including those with unreadable recipes: built-in images
    /// first, then by name.
    pub(crate) fn every_name(&self) -> Result<Vec<String>, ImageError> {
        let dir = self.directory();
        let mut own = Vec::new();
        match fs::read_dir(&dir) {
            Ok(entries) => own.extend(
                entries
                    .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                    .filter_map(|name| Some(name.strip_suffix(".recipe")?.to_owned())),
            ),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(CacheError::io("list", &dir)(e).into()),
        }
        own.sort();
        Ok(BUILT_IN.iter().map(|recipe| recipe.name.clone()).chain(own).collect())
    }

    fn names(&self) -> Result<Vec<String>, ImageError> {
        let mut names = self.every_name()?;
        names.retain(|name| is_built_in(name) || self.kept(name).is_some());
        Ok(names)
    }

    /// Fails if the image does not exist.
    fn check(&self, name: &str) -> Result<(), ImageError> {
        let known = self.names()?;
        let name = name.to_owned();
        if known.contains(&name) {
            Ok(())
        } else if self.every_name()?.contains(&name) {
            Err(ImageError::Recipe { name })
        } else {
            Err(ImageError::Unknown { name, known })
        }
    }

    /// Describes an existing image.
    fn describe(&self, name: &str) -> StoredImage {
        let path = self.directory().join(image_file(name));
        let usable = seal::check(&path).is_ok();
        StoredImage {
            name: name.to_owned(),
            built_in: is_built_in(name),
            tier: self.tier(name).ok(),
            head: inspect(&path).ok().filter(|_| usable),
            path,
        }
    }

    /// Returns a user's recipe from the cache, unless it is damaged.
    fn kept(&self, name: &str) -> Option<StoredRecipe> {
        let text = fs::read(self.directory().join(recipe_file(name))).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Returns the directory of image files, which may not exist.
    fn directory(&self) -> PathBuf {
        self.cache.path(DIRECTORY)
    }

    /// Returns the path of an image's file, and creates its directory.
    pub(super) fn path(&self, name: &str) -> Result<PathBuf, CacheError> {
        Ok(self.cache.dir(DIRECTORY)?.join(image_file(name)))
    }

    /// Returns the path of a custom image's recipe, and creates its directory.
    pub(super) fn recipe_path(&self, name: &str) -> Result<PathBuf, CacheError> {
        Ok(self.cache.dir(DIRECTORY)?.join(recipe_file(name)))
    }
}

/// Directory in the cache.
const DIRECTORY: &str = "images";

fn image_file(name: &str) -> String {
    format!("{name}.image")
}

fn recipe_file(name: &str) -> String {
    format!("{name}.recipe")
}

pub(super) fn is_built_in(name: &str) -> bool {
    BUILT_IN.iter().any(|recipe| recipe.name == name)
}
