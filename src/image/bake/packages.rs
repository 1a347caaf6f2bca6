//! Pure Python packages for an image: downloads, locks and packs them into one file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_files::Packed;
use serde::{Deserialize, Serialize};

use super::extensions::NativeModule;
use crate::artifact::cache::seal::{self, hash_bytes, hash_file};
use crate::artifact::cache::{
    Cache, CacheError, create_atomically, create_sealed, not_upgraded, pip,
};
use crate::artifact::read_archive;
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

    /// Whether it may have native modules.
    fn is_native(&self) -> bool {
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

/// The lock file next to a recipe.
#[derive(Debug, Default, Serialize, Deserialize)]
struct LockFile {
    requirements: Vec<String>,
    package: Vec<LockedPackage>,
}

/// Downloads the recipe's packages into the cache. The first download writes versions and hashes
/// next to the recipe; later downloads use them.
pub(crate) fn lock_packages(
    cache: &Cache,
    recipe: &Recipe,
    recipe_path: &Path,
    progress: &dyn Progress,
) -> Result<Vec<LockedPackage>, BakeError> {
    let wheels = copy_wheels(cache, recipe, recipe_path)?;
    if recipe.packages.is_empty() {
        return Ok(wheels);
    }
    let lock_path = recipe_path.with_extension("lock");
    let lock: LockFile = match fs::read_to_string(&lock_path) {
        Ok(text) => {
            toml::from_str(&text).map_err(|e| broken(recipe, &lock_path, &e.to_string()))?
        }
        Err(_) => LockFile::default(),
    };
    let locked = (lock.requirements == recipe.packages).then_some(lock.package);
    let requirements = match &locked {
        Some(packages) => packages.iter().map(LockedPackage::pin).collect(),
        None => recipe.packages.clone(),
    };
    let packages = download(cache, recipe, &requirements, progress)?;
    match locked {
        Some(expected) if expected != packages => {
            Err(broken(recipe, &lock_path, "its hashes are not those of the downloaded files"))
        }
        Some(_) => Ok([packages, wheels].concat()),
        None => {
            let lock = LockFile {
                requirements: recipe.packages.clone(),
                package: packages.clone(),
            };
            let text =
                toml::to_string(&lock).map_err(|e| broken(recipe, &lock_path, &e.to_string()))?;
            create_atomically(&lock_path, |file| io::Write::write_all(file, text.as_bytes()))?;
            Ok([packages, wheels].concat())
        }
    }
}

/// Copies the recipe's wheel files into the cache.
fn copy_wheels(
    cache: &Cache,
    recipe: &Recipe,
    recipe_path: &Path,
) -> Result<Vec<LockedPackage>, BakeError> {
    let mut packages = Vec::new();
    for wheel in &recipe.wheels {
        let path = recipe_path.parent().unwrap_or(Path::new("")).join(wheel);
        let folder = cache.dir(WHEELS)?;
        let mut copy = tempfile::NamedTempFile::new_in(&folder)
            .map_err(CacheError::io("create a file in", &folder))?;
        // To open another kind of file may wait for ever.
        let metadata = fs::metadata(&path).map_err(CacheError::io("open", &path))?;
        if !metadata.is_file() || metadata.len() > MAX_WHEEL {
            return Err(broken(recipe, &path, "it is not a file, or too large"));
        }
        let file = File::open(&path).map_err(CacheError::io("open", &path))?;
        io::copy(&mut file.take(MAX_WHEEL), &mut copy).map_err(CacheError::io("copy", &path))?;
        let package = package_of(recipe, &path, hash_file(copy.path())?)?;
        if !TAGS.iter().any(|tag| package.file.ends_with(tag)) {
            return Err(broken(recipe, &path, "it is for another platform than belljar's"));
        }
        let kept = package.wheel(cache);
        copy.persist(&kept)
            .map_err(|e| CacheError::io("rename a finished file to", &kept)(e.error))?;
        packages.push(package);
    }
    Ok(packages)
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
    are_packed(cache, packages) || packages.iter().all(|package| package.wheel(cache).is_file())
}

fn are_packed(cache: &Cache, packages: &[LockedPackage]) -> bool {
    package_name(packages).is_some_and(|name| seal::check(&package_file(cache, &name)).is_ok())
}

/// Downloads the locked packages of a built-in image, unless they are in the cache. Fails instead
/// if it must not download them. Removes damaged packages.
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
    for package in packages {
        let wheel = package.wheel(cache);
        if hash_file(&wheel).is_ok_and(|hash| hash != package.sha256) {
            fs::remove_file(&wheel).map_err(CacheError::io("remove", &wheel))?;
        }
    }
    if are_here(cache, packages) {
        return Ok(());
    }
    if !may_download {
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

/// Returns the name of the packed file, if there are packages.
pub(crate) fn package_name(packages: &[LockedPackage]) -> Option<String> {
    let hashes: String = packages.iter().map(|p| p.sha256.as_str()).collect();
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

/// Opens the packages as one packed file in the cache, and creates the file if it is missing.
pub(crate) fn pack(
    cache: &Cache,
    image: &str,
    packages: &[LockedPackage],
    progress: &dyn Progress,
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

/// Removes packages from the cache.
pub(crate) fn remove(cache: &Cache, packages: &[LockedPackage]) -> Result<(), CacheError> {
    let Some(name) = package_name(packages) else {
        return Ok(());
    };
    seal::remove(&package_file(cache, &name))?;
    let earlier = earlier_directory(cache, &name);
    match fs::remove_dir_all(&earlier) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(CacheError::io("remove", &earlier)(e)),
        _ => Ok(()),
    }
}

/// Returns the files of all packages, by path.
fn files_of(
    cache: &Cache,
    image: &str,
    packages: &[LockedPackage],
) -> Result<BTreeMap<String, Vec<u8>>, BakeError> {
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
        let error = pack(&cache, "own", std::slice::from_ref(&pure), &Silent).unwrap_err();
        assert!(error.to_string().contains("has the native module tea/cup."), "{error}");
        let native = LockedPackage {
            file: format!("tea-1-cp315-cp315{}", TAGS[1]),
            ..pure
        };
        // Both are found, so that the second is refused by name.
        let modules = native_modules(&cache, "own", &[native.clone(), native]).unwrap();
        assert_eq!(modules.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(), ["tea.cup"; 2]);
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
                    let packed = pack(&cache, image, &packages, &Silent).unwrap().unwrap();
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
        let packed = pack(&cache, "own", &packages, &Silent).unwrap().unwrap();
        let tea = packed.lookup(0, "tea").unwrap();
        let mut bytes = [0; 9];
        let file = packed.lookup(tea, "0.py").unwrap();
        assert_eq!(packed.read_at(file, 0, &mut bytes), Ok(5));
        assert!(!earlier.exists());
        remove(&cache, &packages).unwrap();
        assert_eq!(fs::read_dir(cache.path(PACKAGES)).unwrap().count(), 0);
    }
}
