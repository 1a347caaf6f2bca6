//! Values across the border, with their types.
//!
//! What Python itself has is made here. What belongs to one of its libraries goes through
//! `belljar._values`, as a dictionary whose key `$` says what it is: the tagged form of
//! `docs/reference/values.md`, with a [`Buffer`](crate::buffer::Buffer) where that has base64.

mod from;
mod to;

pub(crate) use from::from_py;
pub(crate) use to::to_py;
