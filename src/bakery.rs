//! The bakery: images are made by running recipes, and kept on a shelf in the cache.

mod bake;
pub(crate) mod bundled;
mod choose;
mod error;
mod recipe;
mod shelf;
mod store;

pub(crate) use choose::{choose, tier_for};
pub use error::BakeError;
pub use recipe::RecipeError;
pub(crate) use recipe::stamp;
pub(crate) use shelf::{Shelf, StoredImage};
pub(crate) use store::ImageStore;
