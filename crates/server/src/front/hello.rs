//! Control messages between the front and a worker.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::service::owner::KeyLimits;

/// Time without a report after which a worker is killed. Long, because on a busy machine a worker
/// may get no processor time. A worker that runs without responding reports that itself, sooner.
pub(super) const STALL: Duration = Duration::from_mins(5);

/// The monotonic clock that all processes of a machine share, in nanoseconds.
pub(super) fn clock() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::try_from(now).map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

/// A message of the front.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// The first message, with the socket of the store if there is one.
    Hello(Box<Hello>),
    /// A connection, whose socket comes with the message.
    Connection,
    /// The limits of the key have changed.
    Limits(KeyLimits),
    /// Finish what is under way, save the sessions and exit.
    Stop,
}

/// The configuration of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Name of its account.
    pub account: String,
    /// SHA-256 of the key that the front adds to authenticated requests, in hexadecimal digits.
    /// Requests with only a token of a sandbox come without this key.
    pub sha256: String,
    pub limits: KeyLimits,
    /// Fuel that earlier workers of the account used today.
    pub fuel: u64,
    pub sandboxes: Sandboxes,
    /// The directory for its sessions.
    pub state: Option<PathBuf>,
    /// Settings of the command.
    pub settings: serde_json::Value,
    /// Whether the message comes with a socket for records of the audit log, before the store's.
    pub has_audit: bool,
}

/// Prefix of the ids of an account's E2B sandboxes, and secret of their tokens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Sandboxes {
    pub tag: String,
    /// 64 bytes, in hexadecimal digits.
    pub secret: String,
}

/// A worker's message to the front, sent every second.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Report {
    /// When the worker looked, by `clock`.
    #[serde(default)]
    pub at: u64,
    /// Whether a regular exit loses nothing.
    pub is_idle: bool,
    /// The current day, and the fuel used in it.
    pub day: u64,
    pub fuel: u64,
    /// Whether the worker runs, but does not respond. The rest is empty then.
    #[serde(default)]
    pub is_stuck: bool,
}
