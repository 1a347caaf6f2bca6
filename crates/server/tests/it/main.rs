//! The server in this process, with the real engine.

mod place;
mod shims;
