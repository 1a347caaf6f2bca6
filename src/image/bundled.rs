//! The images of a bundle: finds, describes and loads them.

use belljar_memory::Strategy;

use super::catalog::{StoredImage, is_built_in};
use crate::artifact::CodeError;
use crate::artifact::bundle::{Bundle, BundleError};
use crate::artifact::image::{Image, ImageError, inspect};
use crate::sandbox::Factory;
use crate::util::cause::Cause;

/// Lists all images.
pub(crate) fn list(bundle: &Bundle) -> Vec<StoredImage> {
    bundle.manifest().images.iter().filter_map(|name| describe(bundle, name)).collect()
}

/// Returns one image.
pub(crate) fn stored(bundle: &Bundle, name: &str) -> Result<StoredImage, ImageError> {
    describe(bundle, name).ok_or_else(|| missing(bundle, name))
}

/// Loads an image, with the native code of its extensions.
pub(super) fn load(
    bundle: &Bundle,
    factory: &Factory,
    name: &str,
    strategy: Strategy,
) -> Result<Image, ImageError> {
    let path = bundle.image(name).ok_or_else(|| missing(bundle, name))?;
    let mut image = Image::load_unsealed(&path, strategy)?;
    if !image.is_native() && factory.tier_of(false).is_none() {
        return Err(BundleError::Damaged {
            path: bundle.root().to_owned(),
            reason: format!("it has only code for extensions, and the image {name} has none"),
        }
        .into());
    }
    let extensions = image.manifest.extensions.iter().map(|extension| {
        extension_code(bundle, factory, &extension.linked).map_err(|source| BundleError::Native {
            path: bundle.root().to_owned(),
            image: name.to_owned(),
            module: extension.module.clone(),
            source,
        })
    });
    image.extensions = extensions.collect::<Result<_, _>>()?;
    Ok(image)
}

fn extension_code(
    bundle: &Bundle,
    factory: &Factory,
    linked: &str,
) -> Result<wasmtime::Module, Cause> {
    let path = bundle.extension(linked).map_err(Cause::new)?;
    let code = factory.open_code().ok_or_else(|| {
        Cause::new(wasmtime::format_err!("the bundle has no code that is open for extensions"))
    })?;
    code.open_extension(&path).map_err(|error| match error {
        CodeError::Load(cause) => cause,
        error => Cause::new(error),
    })
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
