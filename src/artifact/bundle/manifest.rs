//! The manifest of a bundle: its target, and all files with their hashes.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path};

use belljar_passes::Tier;
use serde::{Deserialize, Serialize};

use super::BundleError;
use crate::artifact::Artifact;
use crate::artifact::cache::seal::hash_bytes;
use crate::limits::MAX_BUNDLE_MANIFEST;

/// Name of the manifest in the bundle.
pub(crate) const FILE: &str = "belljar-bundle.json";
/// Increased by every change that an older program would misread.
pub(crate) const FORMAT: u32 = 3;

/// Contents and target of a bundle.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub format: u32,
    /// Version of the program that made it.
    pub belljar: String,
    /// Key of the artifact, the passes and the runner of that program.
    pub stamp: String,
    /// System and architecture, such as `x86_64-linux`.
    pub target: String,
    /// Name of the target processors.
    pub processor: String,
    /// Processor features that its code uses.
    pub features: Vec<String>,
    /// Tier of its code.
    pub tier: Tier,
    /// Top-level modules that its library omits.
    pub left_out: Vec<String>,
    /// Key of the linker, if there are images with native packages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linking: Option<String>,
    /// Names of the images.
    pub images: Vec<String>,
    /// All other files, by path.
    pub files: Vec<Stored>,
}

/// A file in a bundle.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stored {
    /// Path, separated by `/`.
    pub path: String,
    pub size: u64,
    /// BLAKE3 of the contents, in hexadecimal.
    pub blake3: String,
}

/// The fields that every format has.
#[derive(Deserialize)]
struct Head {
    format: u32,
}

impl Manifest {
    /// Encodes the manifest.
    pub(crate) fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// Reads the manifest of the bundle at `root`, and checks its SHA-256 against `hash`, if given.
pub(super) fn read(root: &Path, hash: Option<&str>) -> Result<Manifest, BundleError> {
    let damaged = |reason: String| BundleError::Damaged {
        path: root.to_owned(),
        reason,
    };
    let found = fs::metadata(root).map_err(BundleError::io("open the bundle", root))?;
    if !found.is_dir() {
        return Err(BundleError::Packed {
            path: root.to_owned(),
        });
    }
    let path = root.join(FILE);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(damaged(format!("it has no {FILE}")));
        }
        Err(error) => return Err(BundleError::io("open", &path)(error)),
    };
    let mut bytes = Vec::new();
    let most = MAX_BUNDLE_MANIFEST as u64;
    file.take(most + 1).read_to_end(&mut bytes).map_err(BundleError::io("read", &path))?;
    if bytes.len() as u64 > most {
        return Err(damaged("its manifest is too long".into()));
    }
    if let Some(expected) = hash {
        let found = hash_bytes(&bytes);
        if !expected.trim().eq_ignore_ascii_case(&found) {
            return Err(BundleError::Other {
                path: root.to_owned(),
                found,
                expected: expected.to_owned(),
            });
        }
    }
    let unreadable = |_| damaged("its manifest cannot be read".into());
    let head: Head = serde_json::from_slice(&bytes).map_err(unreadable)?;
    if head.format != FORMAT {
        return Err(BundleError::Foreign {
            path: root.to_owned(),
            reason: format!(
                "it has format {}, and this version of belljar reads format {FORMAT}",
                head.format
            ),
        });
    }
    let manifest: Manifest = serde_json::from_slice(&bytes).map_err(unreadable)?;
    for file in &manifest.files {
        let path = Path::new(&file.path);
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(damaged(format!("its manifest names {:?}", file.path)));
        }
    }
    let listed = |wanted: &str| manifest.files.iter().any(|file| file.path == wanted);
    if let Some(image) = manifest.images.iter().find(|name| !listed(&super::image_file(name))) {
        return Err(damaged(format!("its manifest lists no file for the image {image}")));
    }
    let artifact = Artifact::in_bundle(Path::new(""));
    let library = [artifact.library_zip(), artifact.font_data()];
    let is_open = listed(super::OPEN_CODE);
    if is_open != manifest.linking.is_some() {
        return Err(damaged("it has a linker's key and no code for it, or the reverse".into()));
    }
    let code = if is_open {
        super::OPEN_CODE
    } else {
        super::CODE
    };
    let needed = [Path::new(code), &library[0], &library[1]];
    if let Some(file) = needed.iter().find(|path| !path.to_str().is_some_and(listed)) {
        return Err(damaged(format!("its manifest does not list {}", file.display())));
    }
    Ok(manifest)
}
