//! Bundles: a read-only directory with everything that some images need to run. A bundle is made on
//! one machine and copied to others, which then download, compile and bake nothing.
//! `docs/reference/bundles.md` specifies it.

mod error;
mod files;
mod manifest;
mod processor;

use std::path::{Path, PathBuf};

pub use error::BundleError;
pub(crate) use files::Writer;
pub(crate) use manifest::{FORMAT, Manifest};
pub use processor::Processor;
pub(crate) use processor::{features, system};

/// File of the native code.
pub(crate) const CODE: &str = "code.cwasm";
/// The same for images with native packages, open for their extensions.
pub(crate) const OPEN_CODE: &str = "open.cwasm";
/// Directory of the native code of extensions.
const EXTENSIONS: &str = "extensions";
/// Directory of the images, as `NAME.image`.
pub(crate) const IMAGES: &str = "images";
/// Directory of custom images' packages, packed.
pub(crate) const PACKAGES: &str = "packages";

/// An open bundle that fits this program and this machine.
#[derive(Clone, Debug)]
pub(crate) struct Bundle {
    root: PathBuf,
    manifest: Manifest,
}

impl Bundle {
    /// Opens the bundle in the directory `path`, which must be made by a program with this `stamp`.
    /// With `hash`, the required SHA-256 of its manifest, every file is also verified; without it,
    /// only sizes are checked.
    pub(crate) fn open(path: &Path, stamp: &str, hash: Option<&str>) -> Result<Self, BundleError> {
        let root = std::path::absolute(path).map_err(BundleError::io("find", path))?;
        let bundle = Self {
            manifest: manifest::read(&root, hash)?,
            root,
        };
        bundle.check_fit(stamp)?;
        files::check_sizes(&bundle.root, &bundle.manifest)?;
        if hash.is_some() {
            bundle.verify()?;
        }
        Ok(bundle)
    }

    /// Opens a bundle that was just written, for any machine.
    pub(crate) fn written(root: &Path) -> Result<Self, BundleError> {
        Ok(Self {
            manifest: manifest::read(root, None)?,
            root: root.to_owned(),
        })
    }

    /// Verifies every file against its hash.
    pub(crate) fn verify(&self) -> Result<(), BundleError> {
        files::check_contents(&self.root, &self.manifest)
    }

    /// Returns the directory.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the file of the native code, if there are images without native packages.
    pub(crate) fn code(&self) -> Option<PathBuf> {
        self.listed(CODE)
    }

    /// Returns the file of the code that is open for extensions, if there are images with native
    /// packages.
    pub(crate) fn open_code(&self) -> Option<PathBuf> {
        self.listed(OPEN_CODE)
    }

    /// Returns the file of an extension's native code, and verifies it against its hash.
    pub(crate) fn extension(&self, linked: &str) -> Result<PathBuf, BundleError> {
        let name = extension_file(linked);
        let Some(file) = self.manifest.files.iter().find(|file| file.path == name) else {
            return Err(BundleError::Damaged {
                path: self.root.clone(),
                reason: format!("its manifest does not list {name}"),
            });
        };
        files::check_content(&self.root, file)?;
        Ok(self.root.join(name))
    }

    fn listed(&self, name: &str) -> Option<PathBuf> {
        let is_here = self.manifest.files.iter().any(|file| file.path == name);
        is_here.then(|| self.root.join(name))
    }

    /// Returns its manifest.
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the file of an image, if the bundle contains it.
    pub(crate) fn image(&self, name: &str) -> Option<PathBuf> {
        let is_here = self.manifest.images.iter().any(|image| image == name);
        is_here.then(|| self.root.join(image_file(name)))
    }

    /// Checks that this program and this processor can use it.
    fn check_fit(&self, stamp: &str) -> Result<(), BundleError> {
        let foreign = |reason| {
            Err(BundleError::Foreign {
                path: self.root.clone(),
                reason,
            })
        };
        let made = &self.manifest;
        let here = system();
        if made.target != here {
            return foreign(format!("it is for {}, and this is {here}", made.target));
        }
        if made.stamp != stamp {
            let version = env!("CARGO_PKG_VERSION");
            return foreign(format!(
                "it was made by another build of belljar ({}, this is {version})",
                made.belljar
            ));
        }
        if made.linking.as_ref().is_some_and(|linking| *linking != belljar_passes::link_version()) {
            return foreign("its native packages were linked by another build of belljar".into());
        }
        let missing: Vec<&str> =
            made.features.iter().map(String::as_str).filter(|name| !processor::has(name)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        foreign(format!(
            "its code is for processors of the kind {}, and this one lacks {}",
            made.processor,
            missing.join(", ")
        ))
    }
}

/// Returns the path of an extension's native code in a bundle, by the SHA-256 of the linked module.
pub(crate) fn extension_file(linked: &str) -> String {
    format!("{EXTENSIONS}/{linked}.cwasm")
}

/// Returns the path of an image in a bundle.
pub(crate) fn image_file(name: &str) -> String {
    format!("{IMAGES}/{name}.image")
}
