//! The server in this process, with the real engine.

mod jupyter;
mod place;
mod shims;
