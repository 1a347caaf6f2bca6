//! Packages for an image: downloads, locks and packs them into one file.

mod lock;

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_files::Packed;
use serde::{Deserialize, Serialize};

use self::lock::{LockFile, LockedSource, plain_name};
use super::extensions::NativeModule;
use crate::artifact::cache::pip::{self, PipError};
use crate::artifact::cache::seal::{self, hash_bytes, hash_file};
use crate::artifact::cache::{Cache, CacheError, create_atomically, create_sealed, not_upgraded};
use crate::artifact::{PINS, read_archive};
use crate::image::error::BakeError;
use crate::image::recipe::Recipe;
use crate::limits::MAX_WHEEL;
use crate::util::progress::{Progress, Stage, Step};

/// Cache directory of downloaded packages.
const WHEELS: &str = "wheels";

/// A package downloaded for a recipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LockedPackage {
    name: String,
    version: String,
    file: String,
    sha256: String,
}

impl LockedPackage {
    /// `name==version`.
    pub(crate) fn pin(&self) -> String {
        format!("{}=={}", self.name, self.version)
    }

    /// Its name in the form that is equal for all ways to write it.
    pub(crate) fn plain_name(&self) -> String {
        plain_name(&self.name)
    }

    /// Whether it may have native modules.
    pub(crate) fn is_native(&self) -> bool {
        self.file.ends_with(TAGS[1])
    }

    /// Returns its file in the cache.
    pub(crate) fn wheel(&self, cache: &Cache) -> PathBuf {
        cache.path(WHEELS).join(&self.sha256)
    }
}

/// A user's recipe in the cache, from which its image can be rebuilt.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredRecipe {
    pub recipe: String,
    pub packages: Vec<LockedPackage>,
}

/// A requirement to build, and why it was not downloaded.
type Wanted = (String, Option<BakeError>);

/// Builds packages with native code for recipes.
pub trait PackageBuilder {
    /// Whether to build a package even if the package index has a version of pure Python.
    fn is_preferred(&self, name: &str) -> bool;

    /// Builds a package, given as `NAME` or `NAME==VERSION`. With `source`, the SHA-256 of its
    /// source must be this one: none of another source's code is run. Returns `None` if the
    /// package index has no source of it.
    ///
    /// # Errors
    ///
    /// If it cannot be built, or its source is another.
    fn build(
        &self,
        requirement: &str,
        source: Option<&str>,
    ) -> Result<Option<BuiltPackage>, Box<dyn Error + Send + Sync>>;
}

/// A package that was built.
#[derive(Clone, Debug)]
pub struct BuiltPackage {
    wheel: PathBuf,
    source: String,
}

impl BuiltPackage {
    /// Names the wheel, and the SHA-256 of the package's source.
    pub fn new(wheel: impl Into<PathBuf>, source: impl Into<String>) -> Self {
        Self {
            wheel: wheel.into(),
            source: source.into(),
        }
    }
}

/// The packages of a recipe, and what obtains them.
pub(crate) struct Shop<'a> {
    pub cache: &'a Cache,
    pub recipe: &'a Recipe,
    pub recipe_path: &'a Path,
    pub builder: Option<&'a dyn PackageBuilder>,
    pub progress: &'a dyn Progress,
}

impl Shop<'_> {
    /// Downloads or builds the recipe's packages into the cache. The first time, this writes
    /// versions and hashes next to the recipe; later, it uses them.
    pub(crate) fn lock(&self) -> Result<Vec<LockedPackage>, BakeError> {
        // Before packages are downloaded or built for nothing.
        check_names(&self.recipe.name, self.recipe.packages.iter().map(String::as_str))?;
        let wheels = self.copy_wheels()?;
        if self.recipe.packages.is_empty() {
            return Ok(wheels);
        }
        let path = self.recipe_path.with_extension("lock");
        let lock: LockFile = match fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text).map_err(|e| self.broken(&path, &e.to_string()))?,
            Err(_) => LockFile::default(),
        };
        if lock.requirements == self.recipe.packages {
            lock.check().map_err(|why| self.broken(&path, &why))?;
            return Ok([self.follow(&lock, &path)?, wheels].concat());
        }
        let requirements = &self.recipe.packages;
        let (wanted, pure) = self.sort(requirements)?;
        let mut native = Vec::new();
        let mut built = Vec::new();
        for (requirement, unavailable) in wanted {
            let (package, source) = self.build(&requirement, None, unavailable)?;
            native.push(package);
            built.push(source);
        }
        let lock = LockFile {
            requirements: requirements.clone(),
            package: pure,
            built,
        };
        lock.check().map_err(|why| self.broken(self.recipe_path, &why))?;
        let text = toml::to_string(&lock).map_err(|e| self.broken(&path, &e.to_string()))?;
        create_atomically(&path, |file| io::Write::write_all(file, text.as_bytes()))?;
        Ok([lock.package, native, wheels].concat())
    }

    /// Obtains the packages of a lock file.
    fn follow(&self, lock: &LockFile, path: &Path) -> Result<Vec<LockedPackage>, BakeError> {
        let pins: Vec<String> = lock.package.iter().map(LockedPackage::pin).collect();
        let packages = match &pins[..] {
            [] => Vec::new(),
            pins => self.download(pins)?,
        };
        if packages != lock.package {
            return Err(self.broken(path, "its hashes are not those of the downloaded files"));
        }
        let mut all = packages;
        for locked in &lock.built {
            let pin = format!("{}=={}", locked.name, locked.version);
            let (package, built) = self.build(&pin, Some(&locked.source), None)?;
            if built != *locked {
                return Err(self.broken(path, "its hashes are not those of the sources"));
            }
            all.push(package);
        }
        Ok(all)
    }

    /// Downloads the packages that are pure Python, and returns the requirements to build. Those
    /// without a pure wheel come with pip's error.
    fn sort(
        &self,
        requirements: &[String],
    ) -> Result<(Vec<Wanted>, Vec<LockedPackage>), BakeError> {
        let Some(builder) = self.builder else {
            return Ok((Vec::new(), self.download(requirements)?));
        };
        let is_built = |requirement: &&String| {
            let name = requirement.split("==").next().unwrap_or_default();
            builder.is_preferred(name)
        };
        let (built, others): (Vec<&String>, Vec<&String>) = requirements.iter().partition(is_built);
        let mut built: Vec<Wanted> = built.into_iter().map(|one| (one.clone(), None)).collect();
        let others: Vec<String> = others.into_iter().cloned().collect();
        let pure = match &others[..] {
            [] => Vec::new(),
            others => match self.download(others) {
                Err(error) if is_unavailable(&error) => {
                    let mut pure = Vec::new();
                    for one in others {
                        match self.download(std::slice::from_ref(one)) {
                            Err(error) if is_unavailable(&error) => {
                                built.push((one.clone(), Some(error)));
                            }
                            found => pure.extend(found?),
                        }
                    }
                    pure
                }
                found => found?,
            },
        };
        Ok((built, pure))
    }

    /// Builds a package, and copies its wheel into the cache. Without a source, this fails with
    /// `unavailable`, if given.
    fn build(
        &self,
        requirement: &str,
        source: Option<&str>,
        unavailable: Option<BakeError>,
    ) -> Result<(LockedPackage, LockedSource), BakeError> {
        let unusable = |why: String| BakeError::Package {
            image: self.recipe.name.clone(),
            package: requirement.to_owned(),
            why,
        };
        let builder = self.builder.ok_or_else(|| {
            unusable("has native code, which only `belljar image build --build` builds".into())
        })?;
        let made = builder.build(requirement, source);
        let Some(made) = made.map_err(|e| unusable(format!("cannot be built: {e}")))? else {
            return Err(unavailable
                .unwrap_or_else(|| unusable("has no source distribution to build".into())));
        };
        let package = self.copy_wheel(&made.wheel)?;
        let source = LockedSource {
            name: package.name.clone(),
            version: package.version.clone(),
            source: made.source,
        };
        Ok((package, source))
    }

    /// Copies the recipe's wheel files into the cache.
    fn copy_wheels(&self) -> Result<Vec<LockedPackage>, BakeError> {
        let folder = self.recipe_path.parent().unwrap_or(Path::new(""));
        self.recipe.wheels.iter().map(|wheel| self.copy_wheel(&folder.join(wheel))).collect()
    }

    fn copy_wheel(&self, path: &Path) -> Result<LockedPackage, BakeError> {
        let folder = self.cache.dir(WHEELS)?;
        let mut copy = tempfile::NamedTempFile::new_in(&folder)
            .map_err(CacheError::io("create a file in", &folder))?;
        // To open another kind of file may wait for ever.
        let metadata = fs::metadata(path).map_err(CacheError::io("open", path))?;
        if !metadata.is_file() || metadata.len() > MAX_WHEEL {
            return Err(self.broken(path, "it is not a file, or too large"));
        }
        let file = File::open(path).map_err(CacheError::io("open", path))?;
        io::copy(&mut file.take(MAX_WHEEL), &mut copy).map_err(CacheError::io("copy", path))?;
        let package = package_of(self.recipe, path, hash_file(copy.path())?)?;
        if !TAGS.iter().any(|tag| package.file.ends_with(tag)) {
            return Err(self.broken(path, "it is for another platform than belljar's"));
        }
        let kept = package.wheel(self.cache);
        copy.persist(&kept)
            .map_err(|e| CacheError::io("rename a finished file to", &kept)(e.error))?;
        Ok(package)
    }

    fn download(&self, requirements: &[String]) -> Result<Vec<LockedPackage>, BakeError> {
        download(self.cache, self.recipe, requirements, self.progress)
    }

    fn broken(&self, path: &Path, why: &str) -> BakeError {
        broken(self.recipe, path, why)
    }
}

/// Packages of the library that the runner changes as it needs them.
const RELIED_ON: &[&str] = &["matplotlib", "numpy", "pandas"];

/// Fails if one of these packages, as `NAME` or `NAME==VERSION`, cannot replace the library's.
pub(crate) fn check_names<'a>(
    image: &str,
    mut packages: impl Iterator<Item = &'a str>,
) -> Result<(), BakeError> {
    let name = |package: &str| plain_name(package.split("==").next().unwrap_or_default());
    match packages.find(|package| RELIED_ON.contains(&name(package).as_str())) {
        Some(package) => Err(BakeError::Conflict {
            image: image.to_owned(),
            package: package.to_owned(),
            why: "cannot replace the sandbox's own, on which the sandbox relies: leave it out, \
                and import the sandbox's own"
                .into(),
        }),
        None => Ok(()),
    }
}

/// Whether pip found no wheel of pure Python.
fn is_unavailable(error: &BakeError) -> bool {
    let BakeError::Download { source, .. } = error else {
        return false;
    };
    matches!(source, PipError::Failed { message, .. } if message.contains("No matching distribution"))
}

/// Endings of the names of wheels that can be used.
const TAGS: [&str; 2] = ["-none-any.whl", "-belljar_wasm32.whl"];

/// Returns the package in a wheel, according to the wheel's name.
fn package_of(recipe: &Recipe, wheel: &Path, sha256: String) -> Result<LockedPackage, BakeError> {
    let file = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut parts = file.splitn(3, '-');
    let (Some(name), Some(version)) = (parts.next(), parts.next()) else {
        return Err(broken(recipe, wheel, "its name is not that of a wheel"));
    };
    Ok(LockedPackage {
        name: name.to_owned(),
        version: version.to_owned(),
        sha256,
        file,
    })
}

/// Reads the packages in the text of a lock file.
pub(crate) fn read_lock(text: &str) -> Result<Vec<LockedPackage>, toml::de::Error> {
    Ok(toml::from_str::<LockFile>(text)?.package)
}

/// Whether the packages are in the cache, packed or as they were downloaded.
pub(crate) fn are_here(cache: &Cache, packages: &[LockedPackage]) -> bool {
    are_packed(cache, packages) || are_downloaded(cache, packages)
}

fn are_downloaded(cache: &Cache, packages: &[LockedPackage]) -> bool {
    packages.iter().all(|package| package.wheel(cache).is_file())
}

/// Whether the cache has the packages in packed form.
pub(crate) fn are_packed(cache: &Cache, packages: &[LockedPackage]) -> bool {
    package_name(packages).is_some_and(|name| seal::check(&package_file(cache, &name)).is_ok())
}

/// Downloads the locked packages of a built-in image, unless they are in the cache. Fails instead
/// if it must not download them, or this process is locked down. Removes damaged packages.
pub(crate) fn fetch(
    cache: &Cache,
    recipe: &Recipe,
    packages: &[LockedPackage],
    may_download: bool,
    progress: &dyn Progress,
) -> Result<(), BakeError> {
    if are_packed(cache, packages) {
        return Ok(());
    }
    fetch_wheels(cache, recipe, packages, may_download, progress)
}

/// Does the same, even if the cache has the packages in packed form.
pub(crate) fn fetch_wheels(
    cache: &Cache,
    recipe: &Recipe,
    packages: &[LockedPackage],
    may_download: bool,
    progress: &dyn Progress,
) -> Result<(), BakeError> {
    for package in packages {
        let wheel = package.wheel(cache);
        if hash_file(&wheel).is_ok_and(|hash| hash != package.sha256) {
            fs::remove_file(&wheel).map_err(CacheError::io("remove", &wheel))?;
        }
    }
    if are_downloaded(cache, packages) {
        return Ok(());
    }
    if !may_download || belljar_lockdown::is_applied() {
        return Err(BakeError::NotDownloaded {
            image: recipe.name.clone(),
        });
    }
    let pins: Vec<String> = packages.iter().map(LockedPackage::pin).collect();
    let found = download(cache, recipe, &pins, progress)?;
    match found.iter().find(|package| !packages.contains(package)) {
        Some(other) => Err(BakeError::Package {
            image: recipe.name.clone(),
            package: other.file.clone(),
            why: "is not the file in the lock of this image".into(),
        }),
        None => Ok(()),
    }
}

fn download(
    cache: &Cache,
    recipe: &Recipe,
    requirements: &[String],
    progress: &dyn Progress,
) -> Result<Vec<LockedPackage>, BakeError> {
    let _step = Step::begin(progress, Stage::Packages, &recipe.name);
    let folder = cache.dir(WHEELS)?;
    let fresh =
        tempfile::tempdir_in(&folder).map_err(CacheError::io("create a directory in", &folder))?;
    let wheels =
        pip::download_pure(requirements, fresh.path()).map_err(|source| BakeError::Download {
            image: recipe.name.clone(),
            source,
        })?;
    let mut packages = Vec::new();
    for wheel in wheels {
        let package = package_of(recipe, &wheel, hash_file(&wheel)?)?;
        let kept = package.wheel(cache);
        fs::rename(&wheel, &kept).map_err(CacheError::io("rename a finished file to", &kept))?;
        packages.push(package);
    }
    Ok(packages)
}

/// Cache directory of packed packages.
const PACKAGES: &str = "packages";

/// Returns the name of the packed file, if there are packages. Its code is the interpreter's.
pub(crate) fn package_name(packages: &[LockedPackage]) -> Option<String> {
    let mut hashes: String = packages.iter().map(|p| p.sha256.as_str()).collect();
    hashes.push_str(&PINS.files.module.sha256);
    (!packages.is_empty()).then(|| hash_bytes(hashes.as_bytes())[..16].to_owned())
}

/// Returns the file of packed packages, in a cache or a bundle.
pub(crate) fn package_file(cache: &Cache, name: &str) -> PathBuf {
    cache.path(PACKAGES).join(format!("{name}.files"))
}

/// Returns the directory in which earlier versions stored these packages.
fn earlier_directory(cache: &Cache, name: &str) -> PathBuf {
    cache.path(PACKAGES).join(name)
}

/// Opens the packages as one packed file in the cache, and creates the file if it is missing, with
/// the code of their modules, which `compile` returns.
pub(crate) fn pack(
    cache: &Cache,
    image: &str,
    packages: &[LockedPackage],
    progress: &dyn Progress,
    compile: impl FnOnce(&Files) -> Result<Files, BakeError>,
) -> Result<Option<Arc<Packed>>, BakeError> {
    let Some(name) = package_name(packages) else {
        return Ok(None);
    };
    let path = package_file(cache, &name);
    if seal::check(&path).is_err() {
        let waiting = || progress.begin(Stage::Waiting, image);
        let lock = cache.lock(&format!("packages-{name}"), waiting);
        let earlier = earlier_directory(cache, &name);
        let _lock = if earlier.is_dir() {
            lock.map_err(not_upgraded(&earlier))?
        } else {
            lock?
        };
        if seal::check(&path).is_err() {
            cache.dir(PACKAGES)?;
            let mut files = files_of(cache, image, packages)?;
            // They are linked, and not imported from files.
            files.retain(|path, _| NativeModule::name_of(path).is_none());
            let mut code = compile(&files)?;
            files.append(&mut code);
            create_sealed(&path, |file| Packed::pack(&files, file))?;
        }
    }
    let opened = open(&path)?;
    // If this fails, the directory is removed with the image.
    let _ = fs::remove_dir_all(earlier_directory(cache, &name));
    Ok(Some(opened))
}

/// Returns the native modules of the packages: in their order, then by path.
pub(crate) fn native_modules(
    cache: &Cache,
    image: &str,
    packages: &[LockedPackage],
) -> Result<Vec<NativeModule>, BakeError> {
    let mut modules = Vec::new();
    for package in packages.iter().filter(|package| package.is_native()) {
        // One by one, because two packages may have the same path.
        let files = files_of(cache, image, std::slice::from_ref(package))?;
        modules.extend(files.into_iter().filter_map(|(path, file)| {
            let name = NativeModule::name_of(&path)?;
            Some(NativeModule { name, file })
        }));
    }
    Ok(modules)
}

/// Opens packed packages.
pub(crate) fn open(path: &Path) -> Result<Arc<Packed>, CacheError> {
    let file = File::open(path).map_err(CacheError::io("open", path))?;
    Ok(Arc::new(Packed::open(file).map_err(CacheError::io("read", path))?))
}

/// Removes a packed file from the cache.
pub(crate) fn remove(cache: &Cache, name: &str) -> Result<(), CacheError> {
    seal::remove(&package_file(cache, name))?;
    let earlier = earlier_directory(cache, name);
    match fs::remove_dir_all(&earlier) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(CacheError::io("remove", &earlier)(e)),
        _ => Ok(()),
    }
}

/// Files of packages, by path.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Returns the files of all packages, by path.
fn files_of(cache: &Cache, image: &str, packages: &[LockedPackage]) -> Result<Files, BakeError> {
    let mut files = BTreeMap::new();
    for package in packages {
        let unusable = |why: String| BakeError::Package {
            image: image.to_owned(),
            package: package.file.clone(),
            why,
        };
        let wheel = package.wheel(cache);
        if hash_file(&wheel)? != package.sha256 {
            return Err(unusable("is not the file that was downloaded".into()));
        }
        let file = File::open(&wheel).map_err(CacheError::io("open", &wheel))?;
        let mut own = BTreeMap::new();
        read_archive(BufReader::new(file), &mut own)
            .map_err(|e| unusable(format!("cannot be unpacked: {e}")))?;
        let native = own.keys().find(|path| NativeModule::name_of(path).is_some());
        if let Some(path) = native.filter(|_| !package.is_native()) {
            return Err(unusable(format!(
                "has the native module {path}, and its name has no platform"
            )));
        }
        files.append(&mut own);
    }
    Ok(files)
}

/// Fails if one of the added packages has a file that another of the packages, of a base, has with
/// other content: their modules would mix.
pub(crate) fn check_files(
    cache: &Cache,
    image: &str,
    packages: &[LockedPackage],
    added: &[LockedPackage],
) -> Result<(), BakeError> {
    if added.is_empty() {
        return Ok(());
    }
    let mut known = HashMap::new();
    for package in packages.iter().filter(|package| !added.contains(package)) {
        let files = files_of(cache, image, std::slice::from_ref(package))?;
        let hashed = files.into_iter().map(|(path, file)| (path, (hash_bytes(&file), package)));
        known.extend(hashed);
    }
    for package in added {
        for (path, file) in files_of(cache, image, std::slice::from_ref(package))? {
            let is_module = !path.split('/').next().unwrap_or_default().ends_with(".dist-info");
            if is_module
                && let Some((hash, other)) = known.get(&path)
                && *hash != hash_bytes(&file)
            {
                return Err(BakeError::Conflict {
                    image: image.to_owned(),
                    package: package.pin(),
                    why: format!(
                        "has another {path} than {}, which a base has: only a package of the same \
                         name replaces it",
                        other.pin()
                    ),
                });
            }
        }
    }
    Ok(())
}

fn broken(recipe: &Recipe, path: &Path, why: &str) -> BakeError {
    BakeError::Package {
        image: recipe.name.clone(),
        package: path.display().to_string(),
        why: format!("cannot be used: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use belljar_files::ReadOnly;

    use super::*;
    use crate::image::choose::WITH_PACKAGES;
    use crate::util::hint::Hint;
    use crate::util::progress::Silent;

    #[test]
    fn a_pure_package_with_a_native_module_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(dir.path().to_owned())).unwrap();
        let path = "tea/cup.cpython-315-belljar_wasm32.wasm".to_owned();
        let pure = package_with(&cache, &[path]);
        let error = pack(&cache, "own", std::slice::from_ref(&pure), &Silent, |_| Ok(Files::new()))
            .unwrap_err();
        assert!(error.to_string().contains("has the native module tea/cup."), "{error}");
        let native = LockedPackage {
            file: format!("tea-1-cp315-cp315{}", TAGS[1]),
            ..pure
        };
        // Both are found, so that the second is refused by name.
        let modules = native_modules(&cache, "own", &[native.clone(), native]).unwrap();
        assert_eq!(modules.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(), ["tea.cup"; 2]);
    }

    /// Builds each package as the same wheel, from a source with this hash.
    struct Maker {
        wheel: PathBuf,
        source: &'static str,
    }

    impl PackageBuilder for Maker {
        fn is_preferred(&self, name: &str) -> bool {
            name == "tea"
        }

        fn build(
            &self,
            requirement: &str,
            source: Option<&str>,
        ) -> Result<Option<BuiltPackage>, Box<dyn Error + Send + Sync>> {
            match (requirement, source) {
                (_, Some(source)) if source != self.source => Err("another source".into()),
                ("tea" | "tea==1", _) => Ok(Some(BuiltPackage::new(&self.wheel, self.source))),
                _ => Ok(None),
            }
        }
    }

    #[test]
    fn a_package_with_native_code_is_built_and_its_source_is_locked() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(dir.path().join("cache"))).unwrap();
        let made = package_with(&cache, &["tea/cup.cpython-315-belljar_wasm32.wasm".to_owned()]);
        let wheel = dir.path().join(format!("tea-1-cp315-cp315{}", TAGS[1]));
        fs::copy(made.wheel(&cache), &wheel).unwrap();
        let path = dir.path().join("own.toml");
        let recipe = Recipe::parse("name = \"own\"\npackages = [\"tea\"]", &path).unwrap();
        let lock = |source: Option<&'static str>| {
            let maker = source.map(|source| Maker {
                wheel: wheel.clone(),
                source,
            });
            let shop = Shop {
                cache: &cache,
                recipe: &recipe,
                recipe_path: &path,
                builder: maker.as_ref().map(|maker| maker as &dyn PackageBuilder),
                progress: &Silent,
            };
            shop.lock()
        };
        let first = lock(Some("5ca1ab1e")).unwrap();
        assert_eq!((first[0].pin().as_str(), first[0].sha256 == made.sha256), ("tea==1", true));
        assert!(first[0].is_native() && first[0].wheel(&cache).is_file());
        let text = fs::read_to_string(path.with_extension("lock")).unwrap();
        assert!(text.contains("[[built]]") && text.contains("5ca1ab1e"), "{text}");
        // Another build of the same source may differ.
        let other = package_with(&cache, &["tea/pot.cpython-315-belljar_wasm32.wasm".to_owned()]);
        fs::copy(other.wheel(&cache), &wheel).unwrap();
        assert_eq!(lock(Some("5ca1ab1e")).unwrap()[0].sha256, other.sha256);
        let error = lock(Some("0ddba11")).unwrap_err().to_string();
        assert!(error.contains("tea==1 cannot be built: another source"), "{error}");
        let error = lock(None).unwrap_err().to_string();
        assert!(error.contains("image build --build"), "{error}");
        // A changed lock runs no other build.
        for (from, to, why) in [
            ("tea", "evil", "it lacks tea"),
            ("version = \"1\"", "version = \"--index-url=x\"", "is not a package"),
        ] {
            let (head, built) = text.split_once("[[built]]").unwrap();
            let changed = format!("{head}[[built]]{}", built.replace(from, to));
            fs::write(path.with_extension("lock"), changed).unwrap();
            let error = lock(Some("5ca1ab1e")).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    /// A package in the cache with `files` files, so that packing takes a while.
    fn package(cache: &Cache, files: usize) -> LockedPackage {
        let names: Vec<String> = (0..files).map(|number| format!("tea/{number}.py")).collect();
        package_with(cache, &names)
    }

    fn package_with(cache: &Cache, files: &[String]) -> LockedPackage {
        let folder = cache.dir(WHEELS).unwrap();
        let made = folder.join("made");
        let mut archive = zip::ZipWriter::new(File::create(&made).unwrap());
        for name in files {
            archive.start_file(name.as_str(), zip::write::SimpleFileOptions::default()).unwrap();
            io::Write::write_all(&mut archive, b"x = 1").unwrap();
        }
        archive.finish().unwrap();
        let sha256 = hash_file(&made).unwrap();
        fs::rename(&made, folder.join(&sha256)).unwrap();
        LockedPackage {
            name: "tea".into(),
            version: "1".into(),
            file: "tea-1-py3-none-any.whl".into(),
            sha256,
        }
    }

    /// Two images with the same packages have separate locks, so both may pack them.
    #[test]
    fn packages_are_packed_once_by_several_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(dir.path().to_owned())).unwrap();
        let packages = [package(&cache, 200)];
        let barrier = Barrier::new(4);
        std::thread::scope(|scope| {
            for image in ["a", "b", "c", "d"] {
                scope.spawn(|| {
                    barrier.wait();
                    let packed = pack(&cache, image, &packages, &Silent, |_| Ok(Files::new()))
                        .unwrap()
                        .unwrap();
                    let tea = packed.lookup(0, "tea").unwrap();
                    assert_eq!((0..).map_while(|at| packed.entry(tea, at)).count(), 200);
                });
            }
        });
        // The file and its seal; the slower packers left no files.
        assert_eq!(fs::read_dir(cache.path(PACKAGES)).unwrap().count(), 2);
    }

    /// The choice of an image by imports may be outdated when the image is loaded.
    #[test]
    fn packages_are_only_downloaded_where_that_is_allowed() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(dir.path().to_owned())).unwrap();
        let recipe = &WITH_PACKAGES[0].0;
        let packages = [package(&cache, 1)];
        fetch(&cache, recipe, &packages, false, &Silent).unwrap();
        // A damaged wheel is not used again and again.
        fs::write(packages[0].wheel(&cache), "damaged").unwrap();
        assert!(are_here(&cache, &packages));
        let error = fetch(&cache, recipe, &packages, false, &Silent).unwrap_err();
        assert!(matches!(error, BakeError::NotDownloaded { .. }), "{error:?}");
        assert!(error.hint().unwrap().contains("setup --image office"));
        assert!(!are_here(&cache, &packages));
    }

    #[test]
    fn packages_that_an_earlier_version_unpacked_are_packed() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(dir.path().to_owned())).unwrap();
        let packages = [package(&cache, 1)];
        let earlier = earlier_directory(&cache, &package_name(&packages).unwrap());
        fs::create_dir_all(earlier.join("tea")).unwrap();
        fs::write(earlier.join("tea/0.py"), "x = 1").unwrap();
        let packed =
            pack(&cache, "own", &packages, &Silent, |_| Ok(Files::new())).unwrap().unwrap();
        let tea = packed.lookup(0, "tea").unwrap();
        let mut bytes = [0; 9];
        let file = packed.lookup(tea, "0.py").unwrap();
        assert_eq!(packed.read_at(file, 0, &mut bytes), Ok(5));
        assert!(!earlier.exists());
        remove(&cache, &package_name(&packages).unwrap()).unwrap();
        assert_eq!(fs::read_dir(cache.path(PACKAGES)).unwrap().count(), 0);
    }
}
