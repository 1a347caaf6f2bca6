//! HTTP for all faces: connections, authentication, request bodies and errors.

pub(crate) mod access;
pub(crate) mod app;
pub(crate) mod auth;
pub(crate) mod authenticated;
pub(crate) mod body_error;
pub(crate) mod connection;
mod data_rate;
pub(crate) mod extract;
pub(crate) mod face;
pub(crate) mod files;
pub(crate) mod fingerprint;
pub(crate) mod forwarded;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
pub(crate) mod guard;
pub(crate) mod health;
pub(crate) mod idempotency;
pub(crate) mod identity;
pub mod keyfile;
pub(crate) mod limiter;
pub(crate) mod limits;
pub(crate) mod listen;
pub(crate) mod output;
pub(crate) mod problem;
pub(crate) mod rate_limit;
pub(crate) mod request_body;
pub(crate) mod session_files;
pub(crate) mod sse;
pub(crate) mod status;
pub(crate) mod stored_responses;
pub(crate) mod streams;
#[cfg(feature = "tls")]
pub(crate) mod tls;
pub(crate) mod trace_context;
pub(crate) mod upload;
mod watched_body;
pub(crate) mod websocket;
pub(crate) mod websocket_input;
