//! The images of a cache directory: found, loaded, made when missing, removed.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::bake::{self, BakeError};
use super::recipe::Recipe;
use super::{BUILT_IN, Image, ImageError, Manifest, inspect};
use crate::cache::{Cache, CacheError, create_atomically, seal};
use crate::instance::Factory;
use crate::memory::Strategy;
use crate::module::{Artifact, split_artifact};
use crate::progress::{Progress, Stage};

/// The image that the built-in ones start from: the artifact as it comes.
const BOOT: &str = "boot";

/// Images by name.
pub(crate) struct ImageStore {
    cache: Cache,
    artifact: Artifact,
    strategy: Strategy,
    progress: Arc<dyn Progress>,
    loaded: Mutex<HashMap<String, Arc<Image>>>,
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

impl ImageStore {
    pub(crate) fn new(
        cache: Cache,
        artifact: Artifact,
        strategy: Strategy,
        progress: Arc<dyn Progress>,
    ) -> Self {
        Self {
            cache,
            artifact,
            strategy,
            progress,
            loaded: Mutex::default(),
        }
    }

    /// The image, if this process has loaded it.
    pub(crate) fn loaded(&self, name: &str) -> Option<Arc<Image>> {
        self.lock().get(name).cloned()
    }

    /// Loads the image, making it first if need be. This can take seconds; it blocks.
    pub(crate) fn ensure(&self, factory: &Factory, name: &str) -> Result<Arc<Image>, BakeError> {
        if let Some(image) = self.loaded(name) {
            return Ok(image);
        }
        let image = Arc::new(self.find_or_bake(factory, name)?);
        self.lock().insert(name.to_owned(), Arc::clone(&image));
        Ok(image)
    }

    /// Makes the image of a user's recipe, whether it is there already or not. When that fails,
    /// an earlier image of that name stays.
    pub(crate) fn build(&self, factory: &Factory, path: &Path) -> Result<StoredImage, BakeError> {
        let recipe = Recipe::read(path)?;
        if is_built_in(&recipe.name) || recipe.name == BOOT {
            return Err(ImageError::BuiltIn { name: recipe.name }.into());
        }
        let packages = bake::lock_packages(&self.cache, &recipe, path, &*self.progress)?;
        self.bake(factory, &recipe, &packages, true)?;
        let stored = bake::StoredRecipe {
            recipe: recipe.text().to_owned(),
            packages,
        };
        let kept = self.recipe_path(&recipe.name)?;
        let text = serde_json::to_vec_pretty(&stored);
        let text = text.map_err(|e| CacheError::io("write", &kept)(e.into()))?;
        create_atomically(&kept, |file| io::Write::write_all(file, &text))?;
        self.lock().remove(&recipe.name);
        Ok(self.stored(&recipe.name)?)
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
        self.lock().remove(name);
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

    /// Where an image's packages are, for mounting.
    pub(crate) fn package_dir(&self, image: &Image) -> Option<PathBuf> {
        let name = image.manifest.package_dir.as_ref()?;
        Some(self.cache.root().join("packages").join(name))
    }

    fn find_or_bake(&self, factory: &Factory, name: &str) -> Result<Image, BakeError> {
        let (recipe, packages) = self.recipe(name)?;
        self.bake(factory, &recipe, &packages, false)
    }

    /// Loads the image of a recipe, making it first if it is missing, or `anew`.
    fn bake(
        &self,
        factory: &Factory,
        recipe: &Recipe,
        packages: &[bake::LockedPackage],
        anew: bool,
    ) -> Result<Image, BakeError> {
        let name = recipe.name.as_str();
        let base = (recipe.base != BOOT).then_some(recipe.base.as_str());
        let base_key = match base {
            Some(base) => {
                let (base, _) = self.recipe(base)?;
                base.key(&base.base)
            }
            None => String::new(),
        };
        let key = recipe.key(&base_key);
        let path = self.path(name)?;
        let current = || {
            if anew {
                Ok(None)
            } else {
                self.load_current(&path, &key)
            }
        };
        if let Some(image) = current()? {
            return Ok(image);
        }
        let lock = format!("image-{name}");
        let _lock = self.cache.lock(&lock, || self.progress.begin(Stage::Waiting, name))?;
        if let Some(image) = current()? {
            return Ok(image);
        }
        let base = match base {
            Some(base) => self.ensure(factory, base)?,
            None => Arc::new(self.boot()?),
        };
        let order = bake::Order {
            recipe,
            base: &base,
            key: key.clone(),
            packages,
            cache: &self.cache,
            progress: &*self.progress,
        };
        let (manifest, memory) = bake::bake(factory, &order)?;
        Image::create(&path, &manifest, &memory)?;
        drop(memory);
        Ok(Image::load(&path, self.strategy)?)
    }

    /// Loads an image that is whole and was made from what the key names.
    fn load_current(&self, path: &Path, key: &str) -> Result<Option<Image>, ImageError> {
        match Image::load(path, self.strategy) {
            Ok(image) if image.manifest.recipe == key => Ok(Some(image)),
            Ok(_)
            | Err(ImageError::Format { .. } | ImageError::Cache(CacheError::Tampered { .. })) => {
                Ok(None)
            }
            Err(ImageError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// The artifact's own memory, as an image.
    fn boot(&self) -> Result<Image, BakeError> {
        let path = self.path(BOOT)?;
        let key = crate::module::PINS.files.module.sha256.clone();
        if let Some(image) = self.load_current(&path, &key)? {
            return Ok(image);
        }
        let split = split_artifact(&self.artifact)?;
        let manifest = Manifest {
            name: BOOT.into(),
            base: None,
            description: "the artifact as it comes".into(),
            imports: Vec::new(),
            packages: Vec::new(),
            package_dir: None,
            artifact: key.clone(),
            recipe: key,
            stack_pointer: split.stack_pointer,
            interrupt: None,
            reserved: None,
        };
        Image::create(&path, &manifest, &split.memory)?;
        Ok(Image::load(&path, self.strategy)?)
    }

    /// The recipe of an image, and the packages that were locked for it.
    fn recipe(&self, name: &str) -> Result<(Recipe, Vec<bake::LockedPackage>), BakeError> {
        if let Some(recipe) = BUILT_IN.iter().find(|recipe| recipe.name == name) {
            return Ok((recipe.clone(), Vec::new()));
        }
        let path = self.recipe_path(name)?;
        let unknown = || {
            Ok::<_, BakeError>(ImageError::Unknown {
                name: name.to_owned(),
                known: self.names()?,
            })
        };
        let Ok(text) = fs::read(&path) else {
            return Err(unknown()?.into());
        };
        let Ok(stored) = serde_json::from_slice::<bake::StoredRecipe>(&text) else {
            return Err(unknown()?.into());
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

    fn path(&self, name: &str) -> Result<PathBuf, CacheError> {
        Ok(self.cache.dir("images")?.join(format!("{name}.image")))
    }

    fn recipe_path(&self, name: &str) -> Result<PathBuf, CacheError> {
        Ok(self.cache.dir("images")?.join(format!("{name}.recipe")))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Image>>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_built_in(name: &str) -> bool {
    BUILT_IN.iter().any(|recipe| recipe.name == name)
}
