//! Signed URLs of E2B that do not name their sandbox. The front compares the signature with those
//! of all sandboxes of running workers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Uri;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::account::Account;
use crate::faces::e2b::credentials::has_signature;

/// How long lists of sandboxes are reused, since anyone can send a signature.
const REST: Duration = Duration::from_secs(1);

type Sandboxes = Vec<(Arc<Account>, String)>;

/// The sandboxes of running workers, and when they were listed.
#[derive(Default)]
pub(super) struct Listed(Mutex<Option<(Instant, Sandboxes)>>);

#[derive(Deserialize)]
struct Sandbox {
    #[serde(rename = "sandboxID")]
    id: String,
}

impl Listed {
    /// Returns the account whose sandbox a URL was signed for. `list` returns the sandboxes of all
    /// running workers as pages of E2B's control plane.
    pub(super) async fn signer<L>(&self, uri: &Uri, list: impl Fn() -> L) -> Option<Arc<Account>>
    where
        L: Future<Output = Sandboxes>,
    {
        if !has_signature(uri) {
            return None;
        }
        let asked = Instant::now();
        loop {
            let mut listed = self.0.lock().await;
            if listed.as_ref().is_none_or(|(when, _)| when.elapsed() >= REST) {
                *listed = Some((Instant::now(), sandboxes(list().await)));
            }
            let (when, all) = listed.as_ref()?;
            let found = all.iter().find(|(account, id)| account.credentials.signed(id, uri));
            if found.is_some() || *when >= asked {
                return found.map(|(account, _)| Arc::clone(account));
            }
            // The sandbox may be newer than the list.
            let rest = REST.saturating_sub(when.elapsed());
            drop(listed);
            tokio::time::sleep(rest).await;
        }
    }
}

/// Reads pages of sandboxes. A compromised worker may name others' sandboxes; their tokens differ.
fn sandboxes(pages: Sandboxes) -> Sandboxes {
    let mut all = Vec::new();
    for (account, page) in pages {
        let sandboxes: Vec<Sandbox> = serde_json::from_str(&page).unwrap_or_default();
        all.extend(sandboxes.into_iter().map(|one| (Arc::clone(&account), one.id)));
    }
    all
}
