//! The server from the outside: its faces, and clients that mean it ill.

mod shims;
mod support;
