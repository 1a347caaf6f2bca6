//! ZMTP 3.0, the protocol of ZeroMQ's sockets, as far as a kernel needs it: the side that listens, without
//! encryption.
//!
//! Anybody on the machine may connect to a socket of TCP, and only the messages are signed. So all that a
//! connection may cost before that is bounded here: the length of a frame, of a message and of what waits
//! to be sent, the time for a handshake, and how many there are.

mod frame;
mod outbox;
mod peer;
mod publisher;
mod router;

pub(crate) use frame::parse;
pub(crate) use peer::Listener;
pub(crate) use publisher::Publisher;
pub(crate) use router::{Router, Sender};
