//! The packages in the artifact, with their licenses.

use std::fs;
use std::path::PathBuf;

use crate::artifact::cache::CacheError;
use crate::artifact::{Artifact, ArtifactError};
use crate::error::Error;

/// A package in the artifact.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct License {
    /// Name of the package.
    pub package: String,
    /// Version, if the artifact's manifest contains it.
    pub version: Option<String>,
    /// Text of the license.
    pub text: String,
}

/// Reads the licenses of all packages in the artifact, sorted by package.
pub(crate) fn read(artifact: &Artifact) -> Result<Vec<License>, Error> {
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
    licenses.sort_by(|a, b| a.package.cmp(&b.package));
    Ok(licenses)
}
