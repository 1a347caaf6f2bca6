//! belljar as a Jupyter kernel: a session behind Jupyter's messaging protocol.
//!
//! [`Kernel`] receives and sends messages, independent of the transport. [`zmq`] provides the
//! sockets of a connection file; a server can use WebSockets.
#![deny(unsafe_code, missing_docs)]
#![warn(
    clippy::exit,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used
)]

mod backend;
mod connection;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod json;
mod kernel;
mod message;
pub mod spec;
pub mod websocket;
mod wire;
pub mod zmq;
mod zmtp;

pub use backend::{Backend, Doing, Evaluated, Failure, Guest, Outlet};
pub use connection::{ConnectionError, ConnectionFile};
pub use kernel::{Activity, ExecutionState, Kernel, Room, asker, info};
pub use message::{Channel, Malformed, Message, Outgoing, Peer, unique};
