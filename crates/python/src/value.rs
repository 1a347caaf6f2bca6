//! Conversion of typed values.
//!
//! Built-in types are converted here. Types of libraries are converted by `belljar._values`, via
//! dictionaries with the key `$`: the tagged form of `docs/reference/values.md`, with a
//! [`Buffer`](crate::buffer::Buffer) in place of base64.

mod from;
mod to;

pub(crate) use from::from_py;
pub(crate) use to::to_py;
