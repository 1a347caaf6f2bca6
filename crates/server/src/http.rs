//! HTTP for all faces: connections, authentication, request bodies and errors.

pub(crate) mod access;
pub(crate) mod app;
pub(crate) mod asker;
pub(crate) mod auth;
pub(crate) mod authed;
pub(crate) mod body;
pub(crate) mod bounds;
pub(crate) mod face;
pub(crate) mod files;
pub(crate) mod forwarded;
pub(crate) mod fuzzing;
pub(crate) mod guard;
pub(crate) mod health;
pub(crate) mod idempotency;
pub(crate) mod inflow;
pub(crate) mod json;
pub mod keyfile;
pub(crate) mod link;
pub(crate) mod listen;
mod pace;
pub(crate) mod problem;
pub(crate) mod query;
pub(crate) mod rate_limit;
pub(crate) mod remembered;
pub(crate) mod sealed;
pub(crate) mod shares;
pub(crate) mod socket;
pub(crate) mod sse;
pub(crate) mod status;
#[cfg(feature = "tls")]
pub(crate) mod tls;
pub(crate) mod trace_context;
pub(crate) mod unread;
pub(crate) mod upload;
