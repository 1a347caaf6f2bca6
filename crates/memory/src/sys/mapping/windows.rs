//! The Windows implementation.

mod backing;
mod space;

pub use backing::Backing;
pub(crate) use space::Space;
