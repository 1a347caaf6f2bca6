//! Images: built by running recipes, and stored in the cache.

mod bake;
pub(crate) mod bundled;
mod catalog;
mod choose;
mod contents;
mod error;
mod loader;
mod recipe;

pub use bake::{BuiltPackage, PackageBuilder};
pub(crate) use catalog::{Shelf, StoredImage, is_extra};
pub(crate) use choose::tier_for;
pub use error::BakeError;
pub(crate) use loader::ImageStore;
pub use recipe::RecipeError;
pub(crate) use recipe::stamp;
