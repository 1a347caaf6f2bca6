//! What the relay and the control synchronise with. They take all of it from here, so that
//! `tests/models` can compile the same two files over loom's types and try every interleaving.

pub(super) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
pub(super) use std::sync::{Mutex, PoisonError};

pub(super) use tokio::sync::Notify;
pub(super) use tokio::sync::futures::Notified;
