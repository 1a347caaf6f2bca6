//! The images of a runtime: loads them, and builds missing ones.

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use belljar_files::Packed;
use belljar_memory::Strategy;
use belljar_passes::Tier;

use super::bake::{self, PackageBuilder};
use super::catalog::{BOOT, Shelf, StoredImage, is_built_in, is_extra};
use super::choose::{BUILT_IN, choose};
use super::contents::Contents;
use super::error::BakeError;
use super::recipe::Recipe;
use crate::artifact::bundle::{Bundle, BundleError};
use crate::artifact::cache::{Cache, CacheError, create_atomically, seal};
use crate::artifact::image::{Image, ImageError, Manifest, Replaced, inspect};
use crate::artifact::{Artifact, HAS_COMPILER, PINS, first_memory};
use crate::sandbox::{Factory, InstanceError};
use crate::util::progress::{Progress, Stage};

/// Images by name.
pub(crate) struct ImageStore {
    cache: Cache,
    shelf: Shelf,
    artifact: Artifact,
    strategy: Strategy,
    progress: Arc<dyn Progress>,
    loaded: Mutex<HashMap<String, Arc<Image>>>,
    /// Bundle that contains the images, instead of the cache.
    bundle: Option<Arc<Bundle>>,
}

impl ImageStore {
    pub(crate) fn new(
        cache: Cache,
        artifact: Artifact,
        strategy: Strategy,
        progress: Arc<dyn Progress>,
    ) -> Self {
        Self {
            shelf: Shelf::new(cache.clone()),
            cache,
            artifact,
            strategy,
            progress,
            loaded: Mutex::default(),
            bundle: None,
        }
    }

    /// Uses the images of a bundle.
    pub(crate) fn in_bundle(
        bundle: Arc<Bundle>,
        artifact: Artifact,
        strategy: Strategy,
        progress: Arc<dyn Progress>,
    ) -> Self {
        let cache = Cache::in_bundle(bundle.root());
        Self {
            bundle: Some(bundle),
            ..Self::new(cache, artifact, strategy, progress)
        }
    }

    /// Returns the name of the image for `code` by its imports. Blocks: packages may be hashed.
    pub(crate) fn for_code<'a>(&'a self, code: &str) -> &'a str {
        self.nearest(choose(code, |name| {
            self.is_ready_at_once(name).unwrap_or_else(|| self.shelf.is_ready(name))
        }))
    }

    /// Like [`Self::for_code`], but does not block. `None` if files would have to be read.
    pub(crate) fn for_code_at_once<'a>(&'a self, code: &str) -> Option<&'a str> {
        let is_known = Cell::new(true);
        let name = choose(code, |name| {
            self.is_ready_at_once(name).unwrap_or_else(|| {
                is_known.set(false);
                false
            })
        });
        is_known.get().then(|| self.nearest(name))
    }

    /// Whether the image can be used at once. `None` if its files would have to be read.
    fn is_ready_at_once(&self, name: &str) -> Option<bool> {
        match &self.bundle {
            Some(bundle) => Some(bundle.image(name).is_some()),
            None if self.loaded(name).is_some() => Some(true),
            None => (!self.shelf.has_file(name)).then_some(false),
        }
    }

    /// Returns the image that replaces the built-in image `name` if the caller did not ask for it
    /// by name: in a bundle without it, the next larger one, or else the largest.
    fn nearest<'a>(&'a self, name: &'a str) -> &'a str {
        let Some(bundle) = &self.bundle else {
            return name;
        };
        let here = |name: &&str| bundle.image(name).is_some();
        if is_extra(name) && here(&name) {
            return name;
        }
        let mut larger =
            BUILT_IN.iter().map(|recipe| recipe.name.as_str()).skip_while(|other| *other != name);
        let mut smaller = BUILT_IN.iter().rev().map(|recipe| recipe.name.as_str());
        let own = bundle.manifest().images.first().map(String::as_str);
        larger.find(here).or_else(|| smaller.find(here)).or(own).unwrap_or(name)
    }

    /// Returns the image, if this process has loaded it.
    pub(crate) fn loaded(&self, name: &str) -> Option<Arc<Image>> {
        self.lock().get(name).cloned()
    }

    /// Whether images are never built, so that loading takes only a mapping.
    pub(crate) fn are_at_hand(&self) -> bool {
        self.bundle.is_some()
    }

    /// Loads the image, and builds it first if necessary. Blocks, possibly for seconds. Packages
    /// of a built-in image are only downloaded if `may_download`.
    pub(crate) fn ensure(
        &self,
        factory: &Factory,
        name: &str,
        may_download: bool,
    ) -> Result<Arc<Image>, BakeError> {
        if let Some(image) = self.loaded(name) {
            return Ok(image);
        }
        factory.ensure(self.tier(name)?)?;
        let image = Arc::new(self.find_or_bake(factory, name, may_download)?);
        self.lock().insert(name.to_owned(), Arc::clone(&image));
        Ok(image)
    }

    /// Builds the image of a user's recipe, even if it exists. If that fails, an existing image of
    /// that name stays.
    pub(crate) fn build(
        &self,
        factory: &Factory,
        path: &Path,
        builder: Option<&dyn PackageBuilder>,
    ) -> Result<StoredImage, BakeError> {
        self.check_changeable("make an image")?;
        if !HAS_COMPILER {
            return Err(ImageError::from(BundleError::NoCompiler).into());
        }
        let recipe = Recipe::read(path)?;
        if is_built_in(&recipe.name) || recipe.name == BOOT {
            return Err(ImageError::BuiltIn { name: recipe.name }.into());
        }
        // Before packages are downloaded or built for nothing.
        self.shelf.bases(&recipe, path).try_for_each(|base| base.map(drop))?;
        let shop = bake::Shop {
            cache: &self.cache,
            recipe: &recipe,
            recipe_path: path,
            builder,
            progress: &*self.progress,
        };
        let packages = shop.lock()?;
        self.bake(factory, &recipe, &packages, true)?;
        let stored = bake::StoredRecipe {
            recipe: recipe.text().to_owned(),
            packages,
        };
        let kept = self.shelf.recipe_path(&recipe.name)?;
        let text = serde_json::to_vec_pretty(&stored);
        let text = text.map_err(|e| CacheError::io("write", &kept)(e.into()))?;
        create_atomically(&kept, |file| io::Write::write_all(file, &text))?;
        self.lock().remove(&recipe.name);
        Ok(self.stored(&recipe.name)?)
    }

    /// Lists all images, built-in images first, then by name.
    pub(crate) fn list(&self) -> Result<Vec<StoredImage>, ImageError> {
        match &self.bundle {
            Some(bundle) => Ok(super::bundled::list(bundle)),
            None => self.shelf.list(),
        }
    }

    /// Returns one image.
    pub(crate) fn stored(&self, name: &str) -> Result<StoredImage, ImageError> {
        match &self.bundle {
            Some(bundle) => super::bundled::stored(bundle, name),
            None => self.shelf.stored(name),
        }
    }

    /// Removes an image. A built-in image is rebuilt when it is needed.
    pub(crate) fn remove(&self, name: &str) -> Result<(), ImageError> {
        self.check_changeable("remove an image")?;
        self.lock().remove(name);
        let removed = self.shelf.remove(name);
        // It may have been loaded meanwhile.
        self.lock().remove(name);
        removed
    }

    fn check_changeable(&self, action: &'static str) -> Result<(), ImageError> {
        self.bundle.as_ref().map_or(Ok(()), |bundle| Err(super::bundled::fixed(bundle, action)))
    }

    /// Returns the file of an image's packages.
    pub(crate) fn package_file(&self, image: &Image) -> Option<PathBuf> {
        let name = image.manifest.package_file.as_ref()?;
        Some(bake::package_file(&self.cache, name))
    }

    /// Returns the tier of code that the image needs.
    pub(crate) fn tier(&self, name: &str) -> Result<Tier, BakeError> {
        if self.bundle.is_some() {
            // A bundle has fixed code.
            return Ok(Tier::Core);
        }
        self.shelf.tier(name)
    }

    /// Returns the packages of the library that the image replaces.
    pub(crate) fn replaced(&self, name: &str) -> Result<Vec<Replaced>, BakeError> {
        let (recipe, packages) = self.shelf.recipe(name)?;
        Ok(self.shelf.contents(&recipe, &packages)?.replaced())
    }

    fn find_or_bake(
        &self,
        factory: &Factory,
        name: &str,
        may_download: bool,
    ) -> Result<Image, BakeError> {
        if let Some(bundle) = &self.bundle {
            let mut image = super::bundled::load(bundle, factory, name, self.strategy)?;
            let file = self.package_file(&image);
            image.packages = file.map(|file| bake::open(&file)).transpose()?;
            return Ok(image);
        }
        if !HAS_COMPILER {
            return Err(ImageError::from(BundleError::NoCompiler).into());
        }
        let (recipe, packages) = self.shelf.recipe(name)?;
        if is_extra(name) {
            bake::fetch(&self.cache, &recipe, &packages, may_download, &*self.progress)?;
        }
        self.bake(factory, &recipe, &packages, false)
    }

    /// Loads the image of a recipe. Builds it first if it is missing, or if `anew` is set.
    fn bake(
        &self,
        factory: &Factory,
        recipe: &Recipe,
        packages: &[bake::LockedPackage],
        anew: bool,
    ) -> Result<Image, BakeError> {
        let name = recipe.name.as_str();
        let base = (recipe.base != BOOT).then_some(recipe.base.as_str());
        let path = self.shelf.path(name)?;
        let contents = self.shelf.contents(recipe, packages)?;
        contents.check(name)?;
        let key = contents.key_of(recipe);
        let packages = &contents.packages[..];
        let packed = self.pack(factory, name, &contents, anew)?;
        let package_file = bake::package_name(packages);
        let complete = |image: Image, extensions| Image {
            packages: packed.clone(),
            extensions,
            ..image
        };
        let current = || {
            if anew {
                return Ok(None);
            }
            let loaded = self.load_current(&path, &key)?;
            let loaded = loaded.filter(|image| image.manifest.package_file == package_file);
            let Some(image) = loaded else {
                return Ok(None);
            };
            let extensions = self.native_code(factory, recipe, &image)?;
            Ok::<_, BakeError>(extensions.map(|extensions| complete(image, extensions)))
        };
        if let Some(image) = current()? {
            return Ok(image);
        }
        let lock = format!("image-{name}");
        let _lock = self.cache.lock(&lock, || self.progress.begin(Stage::Waiting, name))?;
        if let Some(image) = current()? {
            return Ok(image);
        }
        let mut native = bake::native_modules(&self.cache, name, &contents.added)?;
        let is_anew = contents.replaces || native.iter().any(bake::NativeModule::replaces_imported);
        if is_anew {
            native = bake::native_modules(&self.cache, name, packages)?;
        }
        let bases = contents.bases.iter().map(|(recipe, _)| recipe);
        let beneath: Vec<&Recipe> = bases.filter(|_| is_anew).collect();
        let base = match base.filter(|_| !is_anew) {
            // A base with packages is only that of an image that the caller named.
            Some(base) => self.ensure(factory, base, true)?,
            None => Arc::new(self.boot()?),
        };
        if is_anew || !native.is_empty() {
            factory.ensure_of(self.shelf.tier_of(recipe)?, !native.is_empty())?;
        }
        let order = bake::Order {
            native: &native,
            replaced: &contents.replaced(),
            beneath: &beneath,
            recipe,
            base: &base,
            key: key.clone(),
            packages,
            packed: packed.clone(),
            cache: &self.cache,
            library: self.artifact.open()?,
            progress: &*self.progress,
        };
        let (manifest, memory) = with_code(factory, || bake::bake(factory, &order))?;
        Image::create(&path, &manifest, &memory)?;
        drop(memory);
        // If this fails, the next build does it.
        let _ = self.shelf.sweep_extensions();
        let image = Image::load(&path, self.strategy)?;
        let extensions = self.native_code(factory, recipe, &image)?;
        let vanished = || wasmtime::format_err!("an extension vanished from the cache");
        let extensions = extensions.ok_or_else(|| InstanceError::start(vanished()))?;
        Ok(complete(image, extensions))
    }

    /// Opens the packages of an image. If they are not packed yet, or built `anew`, downloads those
    /// of its bases, and checks them: an image on a base with packages is only loaded by its name.
    fn pack(
        &self,
        factory: &Factory,
        name: &str,
        contents: &Contents,
        anew: bool,
    ) -> Result<Option<Arc<Packed>>, BakeError> {
        let is_packed = bake::are_packed(&self.cache, &contents.packages);
        if !is_packed || (anew && !contents.added.is_empty()) {
            let extra = contents.bases.iter().filter(|(base, _)| is_extra(&base.name));
            for (base, packages) in extra {
                bake::fetch_wheels(&self.cache, base, packages, true, &*self.progress)?;
            }
            bake::check_files(&self.cache, name, &contents.packages, &contents.added)?;
        }
        let compile = |files: &bake::Files| -> Result<bake::Files, BakeError> {
            factory.ensure(Tier::Core)?;
            let compiler = bake::Compiler {
                factory,
                boot: self.boot()?,
                library: self.artifact.open()?,
                cache: &self.cache,
                progress: &*self.progress,
            };
            with_code(factory, || compiler.compile(name, files))
        };
        bake::pack(&self.cache, name, &contents.packages, &*self.progress, compile)
    }

    /// Returns the native code of an image's extensions, and has the factory load code that is open
    /// for them. Returns `None` if the cache lacks an extension: the image must be built again.
    fn native_code(
        &self,
        factory: &Factory,
        recipe: &Recipe,
        image: &Image,
    ) -> Result<Option<Arc<[wasmtime::Module]>>, BakeError> {
        if !image.is_native() {
            return Ok(Some(Arc::default()));
        }
        let none = || InstanceError::start(wasmtime::format_err!("no code is open for extensions"));
        let codes = factory.codes().ok_or_else(none)?;
        factory.ensure_of(self.shelf.tier_of(recipe)?, true)?;
        let extensions = &image.manifest.extensions;
        let found = extensions.iter().map(|extension| codes.extension(&extension.linked));
        Ok(found.collect::<Result<Option<Vec<_>>, _>>()?.map(Arc::from))
    }

    /// Whether all images exist and are current, with the code of their extensions, except built-in
    /// ones whose packages were never downloaded. Reads only the heads of their files.
    pub(crate) fn are_made(&self, factory: &Factory) -> bool {
        let is_made = |name: &String| -> Result<bool, BakeError> {
            let (recipe, packages) = self.shelf.recipe(name)?;
            let path = self.shelf.path(name)?;
            if !self.shelf.is_wanted(name) {
                return Ok(true);
            }
            let manifest = match seal::check(&path) {
                Ok(()) => inspect(&path)?.0,
                Err(_) => return Ok(false),
            };
            let contents = self.shelf.contents(&recipe, &packages)?;
            let file = bake::package_name(&contents.packages);
            let has_packages =
                file.as_ref().is_none_or(|name| bake::package_file(&self.cache, name).is_file());
            let linked = manifest.extensions.iter().map(|extension| &*extension.linked);
            let has_code = manifest.extensions.is_empty()
                || factory.codes().is_some_and(|codes| codes.has_open(linked));
            Ok(has_packages
                && has_code
                && manifest.package_file == file
                && manifest.recipe == contents.key_of(&recipe))
        };
        self.bundle.is_some()
            || self
                .shelf
                .every_name()
                .is_ok_and(|names| names.iter().all(|name| is_made(name).unwrap_or(false)))
    }

    /// Returns the directory of the images: a cache or a bundle.
    pub(crate) fn place(&self) -> &Path {
        self.cache.root()
    }

    /// Loads an image if it is complete and its key matches.
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

    /// Returns the artifact's initial memory as an image.
    fn boot(&self) -> Result<Image, BakeError> {
        let path = self.shelf.path(BOOT)?;
        let artifact = PINS.files.module.sha256.clone();
        let key = format!("{artifact}\n{}", belljar_passes::versions());
        if let Some(image) = self.load_current(&path, &key)? {
            return Ok(image);
        }
        let split = first_memory(&self.artifact)?;
        let manifest = Manifest {
            name: BOOT.into(),
            base: None,
            description: "the artifact as it comes".into(),
            imports: Vec::new(),
            packages: Vec::new(),
            package_file: None,
            artifact,
            recipe: key,
            stack_pointer: split.stack_pointer,
            interrupt: None,
            reserved: None,
            extensions: Vec::new(),
            replaced: Vec::new(),
        };
        Image::create(&path, &manifest, &split.memory)?;
        Ok(Image::load(&path, self.strategy)?)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Image>>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Repeats a step of a build with more of the interpreter's code until the step has all that it
/// calls, which imports may not show.
fn with_code<T>(
    factory: &Factory,
    mut step: impl FnMut() -> Result<T, BakeError>,
) -> Result<T, BakeError> {
    loop {
        match step() {
            Err(BakeError::Missing { missing, .. })
                if factory.tier_of(missing.0.open) < Some(missing.0.needs) =>
            {
                factory.ensure_of(missing.0.needs, missing.0.open)?;
            }
            done => return done,
        }
    }
}
