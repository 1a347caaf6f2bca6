//! The Model Context Protocol: tools for models, over standard streams and over HTTP.
//!
//! One handler supports both current revisions, 2026-07-28 and 2025-11-25. Runs and sessions belong
//! to the client's owner in the [`Service`](crate::Service). With [`Functions`], code can call
//! functions outside its sandbox.

mod arguments;
mod calls;
mod catalog;
mod conversations;
mod description;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod handler;
mod http;
mod options;
mod progress;
mod render;
mod resources;
mod revision;
mod sessions;
mod stdio;
mod uri;

pub(crate) use http::routes;
pub use options::{Functions, Options};
pub use stdio::serve;
