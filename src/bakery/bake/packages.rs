//! Pure Python packages for an image: downloaded, locked, unpacked.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bakery::error::BakeError;
use crate::bakery::recipe::Recipe;
use crate::cache::pip;
use crate::cache::seal::{hash_bytes, hash_file};
use crate::cache::{Cache, CacheError, create_atomically};
use crate::progress::{Progress, Stage, Step};

/// The directory of the cache for packages as they were downloaded.
const WHEELS: &str = "wheels";

/// A package as it was downloaded for a recipe.
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

    /// Its file in the cache.
    pub(crate) fn wheel(&self, cache: &Cache) -> PathBuf {
        cache.path(WHEELS).join(&self.sha256)
    }
}

/// A user's recipe as the cache keeps it, so that its image can be made again.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredRecipe {
    pub recipe: String,
    pub packages: Vec<LockedPackage>,
}

/// The lock file that stands beside a recipe.
#[derive(Debug, Default, Serialize, Deserialize)]
struct LockFile {
    requirements: Vec<String>,
    package: Vec<LockedPackage>,
}

/// Downloads the recipe's packages into the cache. The versions and hashes of the first time are
/// written beside the recipe, and hold from then on.
pub(crate) fn lock_packages(
    cache: &Cache,
    recipe: &Recipe,
    recipe_path: &Path,
    progress: &dyn Progress,
) -> Result<Vec<LockedPackage>, BakeError> {
    if recipe.packages.is_empty() {
        return Ok(Vec::new());
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
        Some(_) => Ok(packages),
        None => {
            let lock = LockFile {
                requirements: recipe.packages.clone(),
                package: packages.clone(),
            };
            let text =
                toml::to_string(&lock).map_err(|e| broken(recipe, &lock_path, &e.to_string()))?;
            create_atomically(&lock_path, |file| std::io::Write::write_all(file, text.as_bytes()))?;
            Ok(packages)
        }
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
        let file = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut parts = file.splitn(3, '-');
        let (Some(name), Some(version)) = (parts.next(), parts.next()) else {
            return Err(broken(recipe, &wheel, "its name is not that of a wheel"));
        };
        let package = LockedPackage {
            name: name.to_owned(),
            version: version.to_owned(),
            sha256: hash_file(&wheel)?,
            file: file.clone(),
        };
        let kept = package.wheel(cache);
        fs::rename(&wheel, &kept).map_err(CacheError::io("rename a finished file to", &kept))?;
        packages.push(package);
    }
    Ok(packages)
}

/// The directory of the cache for packages as they are mounted.
const PACKAGES: &str = "packages";

/// Where packages are unpacked together.
pub(crate) fn package_dir(cache: &Cache, packages: &[LockedPackage]) -> PathBuf {
    let names: String = packages.iter().map(|p| p.sha256.as_str()).collect();
    cache.path(PACKAGES).join(&hash_bytes(names.as_bytes())[..16])
}

/// Unpacks the packages into one directory of the cache, named after what is in it.
pub(super) fn unpack(
    cache: &Cache,
    image: &str,
    packages: &[LockedPackage],
) -> Result<Option<PathBuf>, BakeError> {
    if packages.is_empty() {
        return Ok(None);
    }
    let parent = cache.dir(PACKAGES)?;
    let target = package_dir(cache, packages);
    if target.is_dir() {
        return Ok(Some(target));
    }
    let fresh =
        tempfile::tempdir_in(&parent).map_err(CacheError::io("create a directory in", &parent))?;
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
        zip::ZipArchive::new(file)
            .and_then(|mut archive| archive.extract(fresh.path()))
            .map_err(|e| unusable(format!("cannot be unpacked: {e}")))?;
    }
    match fs::rename(fresh.path(), &target) {
        Ok(()) => drop(fresh.keep()),
        // Another image has the same packages, and its maker was faster.
        Err(_) if target.is_dir() => {}
        Err(error) => {
            return Err(CacheError::io("rename a finished directory to", &target)(error).into());
        }
    }
    Ok(Some(target))
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

    use super::*;

    /// A package in the cache, with `files` files so that it takes a while to unpack.
    fn package(cache: &Cache, files: usize) -> LockedPackage {
        let folder = cache.dir(WHEELS).unwrap();
        let made = folder.join("made");
        let mut archive = zip::ZipWriter::new(File::create(&made).unwrap());
        for number in 0..files {
            let name = format!("tea/{number}.py");
            archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            std::io::Write::write_all(&mut archive, b"x = 1").unwrap();
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

    /// Two images with the same packages have locks of their own, so both may unpack them.
    #[test]
    fn packages_are_unpacked_by_several_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(dir.path().to_owned())).unwrap();
        let packages = [package(&cache, 200)];
        let barrier = Barrier::new(4);
        let unpacked: Vec<PathBuf> = std::thread::scope(|scope| {
            let unpack = |image| {
                barrier.wait();
                unpack(&cache, image, &packages).unwrap().unwrap()
            };
            let threads: Vec<_> =
                ["a", "b", "c", "d"].map(|image| scope.spawn(move || unpack(image))).into();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(unpacked.iter().all(|path| *path == unpacked[0]));
        assert_eq!(fs::read_dir(unpacked[0].join("tea")).unwrap().count(), 200);
        // Nothing is left of those who were late.
        assert_eq!(fs::read_dir(cache.path(PACKAGES)).unwrap().count(), 1);
    }
}
