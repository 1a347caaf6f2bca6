//! The Model Context Protocol: tools for models, over standard streams and over HTTP.
//!
//! One handler speaks both current revisions, 2026-07-28 and 2025-11-25. Runs and sessions are those of the
//! [`Service`](crate::Service), of whoever asks. With [`with::Servers`] the code can call the tools of other
//! servers.

mod about;
mod arguments;
mod calls;
mod catalog;
mod conversations;
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
mod text;
mod uri;
pub mod with;

pub(crate) use http::routes;
pub use options::Options;
pub use stdio::serve;
