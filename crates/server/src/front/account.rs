//! What the front keeps for each account, beyond the life of a worker.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::hello::{Report, Sandboxes};
use super::worker::{User, Worker};
use crate::faces::e2b::credentials::Credentials;
use crate::lock::lock;
use crate::service::owner::today;

/// Length of the prefix of a sandbox id that identifies the account. If two accounts had the same
/// prefix, one could not reach its sandboxes, because the tokens differ.
pub(super) const TAG_LENGTH: usize = 8;

/// How long to wait for the end of a worker whose connection broke.
const LAST_WORD: Duration = Duration::from_secs(2);
/// How long to wait for what ended it.
const CAUSE: Duration = Duration::from_secs(20);

pub(super) struct Account {
    pub name: String,
    /// The hash of the name: the folder of the account's state, and in the store.
    pub folder: String,
    pub sandboxes: Sandboxes,
    pub credentials: Credentials,
    /// The current worker.
    live: RwLock<Option<Arc<Worker>>>,
    /// Held while a worker is started or stopped.
    pub turn: tokio::sync::Mutex<()>,
    /// The day, and the fuel used in it.
    fuel: Mutex<(u64, u64)>,
    /// How the last worker ended, if no response has reported it yet.
    death: Mutex<Option<String>>,
}

impl Account {
    pub(super) fn new(name: &str, master: &[u8; 64]) -> Self {
        let part = |number: u8| {
            let mac = Hmac::<Sha256>::new(&(*master).into());
            let mac = mac.chain_update([number]).chain_update(name.as_bytes());
            <[u8; 32]>::from(mac.finalize().into_bytes())
        };
        let mut secret = [0; 64];
        secret[..32].copy_from_slice(&part(0));
        secret[32..].copy_from_slice(&part(1));
        Self {
            name: name.to_owned(),
            folder: HEXLOWER.encode(&Sha256::digest(name)[..16]),
            sandboxes: Sandboxes {
                tag: tag(name),
                secret: HEXLOWER.encode(&secret),
            },
            credentials: Credentials::of_secret(secret),
            live: RwLock::default(),
            turn: tokio::sync::Mutex::default(),
            fuel: Mutex::default(),
            death: Mutex::default(),
        }
    }

    /// Marks the running worker as used, if there is one.
    pub(super) fn enter(&self) -> Option<User> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.as_ref().filter(|worker| !worker.ended.is_cancelled()).map(Worker::use_it)
    }

    /// The current worker, which may have exited.
    pub(super) fn live(&self) -> Option<Arc<Worker>> {
        self.live.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_live(&self, worker: Arc<Worker>) {
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = Some(worker);
    }

    /// Removes the worker, so that it gets no more requests. Unless forced, only if its exit
    /// loses nothing: a request may have come since the caller looked.
    pub(super) fn take(&self, id: u64, is_forced: bool) -> Option<Arc<Worker>> {
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        live.take_if(|worker| worker.id == id && (is_forced || worker.idle_for().is_some()))
    }

    /// Fuel used today, as far as workers have reported it.
    pub(super) fn fuel(&self) -> u64 {
        let fuel = *lock(&self.fuel);
        if fuel.0 == today() { fuel.1 } else { 0 }
    }

    pub(super) fn note_fuel(&self, report: Report) {
        let mut fuel = lock(&self.fuel);
        if report.day != today() {
            return;
        }
        // A compromised worker cannot reduce it.
        let before = if fuel.0 == report.day { fuel.1 } else { 0 };
        *fuel = (report.day, before.max(report.fuel));
    }

    pub(super) fn set_death(&self, how: Option<String>) {
        *lock(&self.death) = how;
    }

    /// Returns how a worker ended after a request to it failed, whose response reports it; `None`
    /// if it has not exited.
    pub(super) async fn autopsy(&self, worker: &Worker) -> Option<String> {
        tokio::time::timeout(LAST_WORD, worker.ended.cancelled()).await.ok()?;
        let how = tokio::time::timeout(CAUSE, worker.how.wait()).await;
        let how = how.map_or_else(|_| "it has ended".to_owned(), Clone::clone);
        self.take_death();
        Some(how)
    }

    /// Returns how the last worker ended, once.
    pub(super) fn take_death(&self) -> Option<String> {
        lock(&self.death).take()
    }
}

/// The prefix of an account's sandbox ids.
pub(super) fn tag(name: &str) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let hash = Sha256::digest([b"sandboxes\n", name.as_bytes()].concat());
    hash[..TAG_LENGTH].iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect()
}
