//! ZMTP 3.0, the protocol of ZeroMQ's sockets, as far as a kernel needs it: the listening side,
//! without encryption.
//!
//! Any process on the machine can connect to a TCP socket, and only the messages are authenticated.
//! So everything before that is limited here: the length of a frame, of a message and of the send
//! queue, the time for a handshake, and the number of connections.

mod frame;
mod outbox;
mod peer;
mod publisher;
mod router;

#[cfg(feature = "fuzzing")]
pub(crate) use frame::parse;
pub(crate) use peer::Listener;
pub(crate) use publisher::Publisher;
pub(crate) use router::{Router, Sender};
