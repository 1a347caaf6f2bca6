//! The image files in a cache directory: finds, describes and removes them. Needs no engine.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use belljar_passes::Tier;

use super::bake::{self, LockedPackage, StoredRecipe};
use super::choose::{WITH_PACKAGES, built_in_recipes, tier_for};
use super::contents::Contents;
use super::error::BakeError;
use super::recipe::{Recipe, RecipeError};
use crate::artifact::cache::{Cache, CacheError, seal};
use crate::artifact::image::{ImageError, Manifest, inspect};
use crate::artifact::remove_extensions;

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
        let packages = self.packages(name);
        let packed = self.packed(name);
        let directory = self.directory();
        let extensions = self.extensions(name);
        seal::remove(&directory.join(image_file(name)))?;
        seal::remove(&directory.join(recipe_file(name)))?;
        self.remove_extensions(&extensions)?;
        self.remove_packages(&packages, &packed)
    }

    /// Returns the linked extensions of an image.
    fn extensions(&self, name: &str) -> Vec<String> {
        let head = inspect(&self.directory().join(image_file(name)));
        let extensions = head.map(|(manifest, _)| manifest.extensions).unwrap_or_default();
        extensions.into_iter().map(|extension| extension.linked).collect()
    }

    /// Removes extensions that no image uses.
    pub(super) fn sweep_extensions(&self) -> Result<(), ImageError> {
        self.remove_extensions(&[])
    }

    /// Removes the extensions of a removed image, and those of failed builds and earlier images,
    /// except those that images use.
    fn remove_extensions(&self, removed: &[String]) -> Result<(), ImageError> {
        let names = self.every_name()?;
        let used: Vec<String> = names.iter().flat_map(|name| self.extensions(name)).collect();
        Ok(remove_extensions(&self.cache, &used, removed)?)
    }

    /// Removes the packages of a removed image and their packed files, except those that other
    /// images use.
    fn remove_packages(
        &self,
        packages: &[LockedPackage],
        packed: &BTreeSet<String>,
    ) -> Result<(), ImageError> {
        let names = self.every_name()?;
        let used: BTreeSet<String> = names.iter().flat_map(|name| self.packed(name)).collect();
        for packed in packed.difference(&used) {
            bake::remove(&self.cache, packed)?;
        }
        let others: Vec<_> = names.iter().map(|name| self.packages(name)).collect();
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

    /// Returns the names of the packed files of an image on this machine: that of its file, and
    /// that of its packages, as far as they are known. Its bases may have changed or be gone.
    fn packed(&self, name: &str) -> BTreeSet<String> {
        let own = self.packages(name);
        let contents = self.recipe(name).and_then(|(recipe, _)| self.contents(&recipe, &own));
        let wanted = bake::package_name(&contents.map_or(own, |contents| contents.packages));
        let head = inspect(&self.directory().join(image_file(name)));
        let made = head.ok().and_then(|(manifest, _)| manifest.package_file);
        wanted.into_iter().chain(made).collect()
    }

    /// Returns the packages of a recipe, with those of its bases.
    pub(super) fn contents(
        &self,
        recipe: &Recipe,
        own: &[LockedPackage],
    ) -> Result<Contents, BakeError> {
        let path = self.directory().join(recipe_file(&recipe.name));
        let mut bases: Vec<_> = self.bases(recipe, &path).collect::<Result<_, _>>()?;
        bases.reverse();
        Ok(Contents::new(bases, own))
    }

    /// Returns the bases of a recipe with their packages, the highest first. Fails if an image is
    /// its own base: a base may have been built again with another one. The error names `path`.
    pub(super) fn bases(
        &self,
        recipe: &Recipe,
        path: &Path,
    ) -> impl Iterator<Item = Result<(Recipe, Vec<LockedPackage>), BakeError>> {
        let (first, path) = (recipe.base.clone(), path.to_owned());
        let mut seen = vec![recipe.name.clone()];
        let mut next = Some(first.clone());
        std::iter::from_fn(move || {
            let name = next.take().filter(|name| name != BOOT)?;
            if seen.contains(&name) {
                let (path, value) = (path.clone(), first.clone());
                let why = "is based on this image, or on itself";
                let field = "base";
                return Some(Err(RecipeError::Field {
                    path,
                    field,
                    value,
                    why,
                }
                .into()));
            }
            let found = self.recipe(&name);
            next = found.as_ref().ok().map(|(recipe, _)| recipe.base.clone());
            seen.push(name);
            Some(found)
        })
    }

    /// Returns the own packages of an image on this machine.
    fn packages(&self, name: &str) -> Vec<LockedPackage> {
        let kept = self.kept(name).map(|stored| stored.packages);
        kept.or_else(|| self.has_file(name).then(|| locked(name))?).unwrap_or_default()
    }

    /// Returns the recipe of an image, with its locked packages.
    pub(super) fn recipe(&self, name: &str) -> Result<(Recipe, Vec<LockedPackage>), BakeError> {
        if let Some(recipe) = built_in_recipes().find(|recipe| recipe.name == name) {
            return Ok((recipe.clone(), locked(name).unwrap_or_default()));
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
        self.tier_of(&self.recipe(name)?.0)
    }

    /// Does the same for the image of a recipe.
    pub(super) fn tier_of(&self, recipe: &Recipe) -> Result<Tier, BakeError> {
        let needed =
            |recipe: &Recipe| tier_for(&[&*recipe.import_code(), &*recipe.warm_up].join("\n"), &[]);
        let path = self.directory().join(recipe_file(&recipe.name));
        let mut tier = needed(recipe);
        for base in self.bases(recipe, &path) {
            if tier == Tier::All {
                break;
            }
            tier = tier.max(needed(&base?.0));
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
        Ok(built_in_recipes().map(|recipe| recipe.name.clone()).chain(own).collect())
    }

    fn names(&self) -> Result<Vec<String>, ImageError> {
        let mut names = self.every_name()?;
        names.retain(|name| is_built_in(name) || self.kept(name).is_some());
        Ok(names)
    }

    /// Whether the image exists, or is made without being asked for.
    pub(crate) fn is_wanted(&self, name: &str) -> bool {
        !is_extra(name) || self.has_file(name)
    }

    /// Whether the image, if it needs packages, is made or can be made without downloading any: its
    /// file may be of an earlier version with other packages.
    pub(super) fn is_ready(&self, name: &str) -> bool {
        self.has_file(name)
            && locked(name).is_none_or(|packages| bake::are_here(&self.cache, &packages))
    }

    /// Whether the image's file exists. It may be of an earlier version.
    pub(super) fn has_file(&self, name: &str) -> bool {
        self.directory().join(image_file(name)).exists()
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
    built_in_recipes().any(|recipe| recipe.name == name)
}

/// Returns the packages of a built-in image that needs some.
fn locked(name: &str) -> Option<Vec<LockedPackage>> {
    let (_, lock) = WITH_PACKAGES.iter().find(|(recipe, _)| recipe.name == name)?;
    Some(bake::read_lock(lock).expect("the built-in locks are part of this program and parse"))
}

/// Whether an image needs packages that are downloaded when it is first made.
pub(crate) fn is_extra(name: &str) -> bool {
    WITH_PACKAGES.iter().any(|(recipe, _)| recipe.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An earlier version may have made such images.
    #[test]
    fn images_that_are_their_own_bases_are_refused_and_removed() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(place.path().to_owned())).unwrap();
        let shelf = Shelf::new(cache);
        for (name, base) in [("tea", "cup"), ("cup", "pot"), ("pot", "cup")] {
            let recipe = format!("name = {name:?}\nbase = {base:?}");
            let packages = Vec::new();
            let stored = serde_json::to_vec(&StoredRecipe { recipe, packages }).unwrap();
            fs::write(shelf.recipe_path(name).unwrap(), stored).unwrap();
        }
        let tea = shelf.recipe("tea").unwrap().0;
        let error = shelf.contents(&tea, &[]).err().unwrap().to_string();
        assert!(error.contains("base \"cup\" is based on"), "{error}");
        assert!(shelf.tier("tea").is_err() && shelf.tier("pot").is_err());
        for name in ["tea", "cup", "pot"] {
            shelf.remove(name).unwrap();
        }
        assert!(shelf.every_name().unwrap().iter().all(|name| is_built_in(name)));
    }

    /// An image of an earlier version may have had other packages.
    #[test]
    fn an_image_without_its_packages_is_not_ready() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(place.path().to_owned())).unwrap();
        let shelf = Shelf::new(cache.clone());
        assert!(!shelf.is_ready("office"));
        fs::write(shelf.path("office").unwrap(), "of an earlier version").unwrap();
        assert!(shelf.is_wanted("office"));
        assert!(!shelf.is_ready("office"));
        let packages = locked("office").unwrap();
        fs::create_dir_all(packages[0].wheel(&cache).parent().unwrap()).unwrap();
        for package in &packages {
            assert!(!shelf.is_ready("office"));
            fs::write(package.wheel(&cache), "wheel").unwrap();
        }
        assert!(shelf.is_ready("office"));

        // The packed file suffices, if it is undamaged.
        for package in &packages {
            fs::remove_file(package.wheel(&cache)).unwrap();
        }
        let packed = bake::package_file(&cache, &bake::package_name(&packages).unwrap());
        fs::create_dir_all(packed.parent().unwrap()).unwrap();
        fs::write(&packed, "packed").unwrap();
        assert!(!shelf.is_ready("office"));
        seal::create(&packed).unwrap();
        assert!(shelf.is_ready("office"));
        fs::write(&packed, "damage").unwrap();
        assert!(!shelf.is_ready("office"));
    }
}
