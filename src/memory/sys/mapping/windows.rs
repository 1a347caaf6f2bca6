//! The Windows implementation.

mod backing;
mod space;

pub(in crate::memory) use backing::Backing;
pub(in crate::memory) use space::Space;
