//! The packages in the artifact and in images, with their licenses.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use belljar_files::{Packed, ReadOnly};

use crate::artifact::cache::CacheError;
use crate::artifact::{Artifact, ArtifactError};
use crate::error::Error;

/// A package in the artifact or in an image.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct License {
    /// Name of the package.
    pub package: String,
    /// Version, if it is known.
    pub version: Option<String>,
    /// Text of the license.
    pub text: String,
}

/// Reads the licenses of all packages in the artifact, and of those in the directory `packed`,
/// which may not exist; sorted by package.
pub(crate) fn read(artifact: &Artifact, packed: &Path) -> Result<Vec<License>, Error> {
    let read = |path: &PathBuf| {
        fs::read(path).map(|text| String::from_utf8_lossy(&text).into_owned()).map_err(|source| {
            Error::from(ArtifactError::from(CacheError::io("read", path)(source)))
        })
    };
    let manifest = read(&artifact.manifest())?;
    let version_of = |package: &str| {
        manifest.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                (Some("package"), Some(name), Some(version)) if name == package => {
                    Some(version.to_owned())
                }
                (Some("python"), Some(version), None) if package == "cpython" => {
                    Some(version.to_owned())
                }
                _ => None,
            }
        })
    };
    let folder = artifact.licenses();
    let entries = fs::read_dir(&folder).map_err(CacheError::io("list", &folder))?;
    let mut licenses = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        // The directory also contains some sources, which the license of one package requires.
        if path.extension().is_none_or(|e| e != "txt") {
            continue;
        }
        let package = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        licenses.push(License {
            version: version_of(&package),
            text: read(&path)?,
            package,
        });
    }
    licenses.extend(of_images(packed)?);
    licenses.sort_by(|a, b| (&a.package, &a.version).cmp(&(&b.package, &b.version)));
    licenses.dedup();
    Ok(licenses)
}

/// Reads the licenses of the packages of images.
fn of_images(directory: &Path) -> Result<Vec<License>, Error> {
    let mut licenses = Vec::new();
    let Ok(entries) = fs::read_dir(directory) else {
        return Ok(licenses);
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|extension| extension == "files") {
            let failed = |source| Error::from(CacheError::io("read", &path)(source));
            let packed = Packed::open(File::open(&path).map_err(failed)?).map_err(failed)?;
            let folders = children(&packed, 0).filter(|(name, _)| name.ends_with(".dist-info"));
            licenses.extend(folders.filter_map(|(_, node)| of_package(&packed, node)));
        }
    }
    Ok(licenses)
}

/// Reads the license of a package from the directory of its metadata: the texts, or what the
/// metadata says of it.
fn of_package(packed: &Packed, folder: u64) -> Option<License> {
    let metadata = text(packed, packed.lookup(folder, "METADATA")?)?;
    let head = metadata.split("\n\n").next()?;
    let field =
        |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let mut texts = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for (name, node) in children(packed, folder) {
            let upper = name.to_uppercase();
            let is_license = ["LICEN", "COPYING", "NOTICE"].iter().any(|word| upper.contains(word));
            if packed.entry(node, 0).is_some() {
                folders.push(node);
            } else if is_license {
                texts.extend(text(packed, node));
            }
        }
    }
    if texts.is_empty() {
        let classifiers =
            head.lines().filter_map(|line| line.strip_prefix("Classifier: License :: "));
        let named = field("License-Expression").or_else(|| field("License"));
        texts.extend(named.into_iter().chain(classifiers).map(str::to_owned));
    }
    Some(License {
        package: field("Name")?.to_lowercase(),
        version: field("Version").map(str::to_owned),
        text: texts.join("\n\n"),
    })
}

fn children(packed: &Packed, folder: u64) -> impl Iterator<Item = (&str, u64)> {
    (0..).map_while(move |index| packed.entry(folder, index))
}

fn text(packed: &Packed, file: u64) -> Option<String> {
    let size = packed.stat(file)?.size;
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    let mut read = 0;
    while read < bytes.len() {
        match packed.read_at(file, read as u64, &mut bytes[read..]).ok()? {
            0 => return None,
            count => read += count,
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
