//! What all faces share: who asks, how errors are told, and how connections are served.

pub(crate) mod app;
pub(crate) mod auth;
pub(crate) mod body;
pub(crate) mod health;
pub(crate) mod listen;
pub(crate) mod problem;
