//! Bundles: everything that some images need to run, in one directory that is only read. A bundle
//! is made on one machine and carried to others, where nothing is downloaded, compiled or baked.
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

/// The native code.
pub(crate) const CODE: &str = "code.cwasm";
/// The images, as `NAME.image`.
pub(crate) const IMAGES: &str = "images";
/// Packages of images of one's own, packed.
pub(crate) const PACKAGES: &str = "packages";

/// A bundle, opened: it fits this program and this machine.
#[derive(Clone, Debug)]
pub(crate) struct Bundle {
    root: PathBuf,
    manifest: Manifest,
}

impl Bundle {
    /// Opens the bundle in the directory `path`, made by a program with this `stamp`. With `hash`,
    /// the SHA-256 that its manifest must have, every file is read and compared, too; without, only
    /// their sizes are.
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

    /// One that was just written, for whichever machine.
    pub(crate) fn written(root: &Path) -> Result<Self, BundleError> {
        Ok(Self {
            manifest: manifest::read(root, None)?,
            root: root.to_owned(),
        })
    }

    /// Compares every file with its hash.
    pub(crate) fn verify(&self) -> Result<(), BundleError> {
        files::check_contents(&self.root, &self.manifest)
    }

    /// The directory.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The native code.
    pub(crate) fn code(&self) -> PathBuf {
        self.root.join(CODE)
    }

    /// What its manifest says.
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The file of an image that is in it.
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

/// The path of an image in a bundle.
pub(crate) fn image_file(name: &str) -> String {
    format!("{IMAGES}/{name}.image")
}
