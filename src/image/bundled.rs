//! The images of a bundle: finds, describes and loads them.

use belljar_memory::Strategy;

use super::catalog::{StoredImage, is_built_in};
use crate::artifact::bundle::{Bundle, BundleError};
use crate::artifact::image::{Image, ImageError, inspect};

/// Lists all images.
pub(crate) fn list(bundle: &Bundle) -> Vec<StoredImage> {
    bundle.manifest().images.iter().filter_map(|name| describe(bundle, name)).collect()
}

/// Returns one image.
pub(crate) fn stored(bundle: &Bundle, name: &str) -> Result<StoredImage, ImageError> {
    describe(bundle, name).ok_or_else(|| missing(bundle, name))
}

/// Loads an image.
pub(super) fn load(bundle: &Bundle, name: &str, strategy: Strategy) -> Result<Image, ImageError> {
    let path = bundle.image(name).ok_or_else(|| missing(bundle, name))?;
    let image = Image::load_unsealed(&path, strategy)?;
    if image.is_native() {
        return Err(BundleError::Native {
            image: name.to_owned(),
        }
        .into());
    }
    Ok(image)
}

/// Returns the error for a change to a bundle.
pub(crate) fn fixed(bundle: &Bundle, action: &'static str) -> ImageError {
    BundleError::Fixed {
        action,
        path: bundle.root().to_owned(),
    }
    .into()
}

fn describe(bundle: &Bundle, name: &str) -> Option<StoredImage> {
    let path = bundle.image(name)?;
    Some(StoredImage {
        name: name.to_owned(),
        built_in: is_built_in(name),
        tier: Some(bundle.manifest().tier),
        head: inspect(&path).ok(),
        path,
    })
}

fn missing(bundle: &Bundle, name: &str) -> ImageError {
    ImageError::NotInBundle {
        path: bundle.root().to_owned(),
        name: name.to_owned(),
        known: bundle.manifest().images.clone(),
    }
}
