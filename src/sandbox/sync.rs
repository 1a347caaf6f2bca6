//! The synchronization primitives of the relay and the control. They import them only from here, so
//! that `tests/models` can compile the same two files with loom's types and test all interleavings.

pub(super) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
pub(super) use std::sync::{Mutex, PoisonError};

pub(super) use tokio::sync::Notify;
pub(super) use tokio::sync::futures::Notified;
