//! Signed URLs of E2B that do not name their sandbox. The front compares the signature with those
//! of all sandboxes of running workers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Uri;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::account::Account;
use crate::faces::e2b::credentials::has_signature;

/// Maximum number of an account's sandboxes in lists. Each costs several hashes for each signature
/// that a client sends.
const MAX_LISTED: usize = 4096;
/// How long lists of sandboxes are reused, since anyone can send a signature.
const REST: Duration = Duration::from_secs(1);

type Sandboxes = Vec<(Arc<Account>, String)>;

/// The sandboxes of running workers.
#[derive(Default)]
pub(super) struct Listed(Mutex<Option<List>>);

struct List {
    begun: Instant,
    ended: Instant,
    sandboxes: Sandboxes,
}

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
            // A worker that does not answer makes this take longer than `REST`. Those who wait
            // meanwhile share the list.
            if listed.as_ref().is_none_or(|list| list.ended.elapsed() >= REST) {
                let begun = Instant::now();
                let sandboxes = sandboxes(list().await);
                *listed = Some(List {
                    begun,
                    ended: Instant::now(),
                    sandboxes,
                });
            }
            let known = listed.as_ref()?;
            let mut all = known.sandboxes.iter();
            let found = all.find(|(account, id)| account.credentials.signed(id, uri));
            if found.is_some() || known.begun >= asked {
                return found.map(|(account, _)| Arc::clone(account));
            }
            // The sandbox may be newer than the list.
            let rest = REST.saturating_sub(known.ended.elapsed());
            drop(listed);
            tokio::time::sleep(rest).await;
        }
    }
}

/// Reads pages of sandboxes. A compromised worker may name as many as it likes, and others'.
fn sandboxes(pages: Sandboxes) -> Sandboxes {
    let mut all = Vec::new();
    for (account, page) in pages {
        let sandboxes: Vec<Sandbox> = serde_json::from_str(&page).unwrap_or_default();
        let own = sandboxes.into_iter().filter(|one| one.id.starts_with(&account.sandboxes.tag));
        all.extend(own.take(MAX_LISTED).map(|one| (Arc::clone(&account), one.id)));
    }
    all
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;

    #[test]
    fn a_worker_lists_its_own_sandboxes_and_not_too_many() {
        let (one, two) = (Account::new("one", &[1; 64]), Account::new("two", &[1; 64]));
        let (tag, theirs) = (one.sandboxes.tag.clone(), two.sandboxes.tag.clone());
        let ids = [format!("{theirs}000000000000"), "é".repeat(9), String::new()];
        let own = (0..MAX_LISTED + 9).map(|number| format!("{tag}{number:012}"));
        let page: Vec<_> =
            ids.into_iter().chain(own).map(|id| serde_json::json!({"sandboxID": id})).collect();
        let page = serde_json::Value::from(page).to_string();
        let listed = sandboxes(vec![(Arc::new(one), page), (Arc::new(two), "[{}]".to_owned())]);
        assert_eq!(listed.len(), MAX_LISTED);
        assert!(listed.iter().all(|(_, id)| id.starts_with(&tag)));
    }

    #[tokio::test]
    async fn requests_that_wait_for_slow_workers_share_a_list() {
        let (listed, lists) = (Listed::default(), AtomicUsize::new(0));
        let uri = Uri::from_static("/files?signature=v1_none");
        let list = || async {
            lists.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(REST + REST / 10).await;
            Vec::new()
        };
        let found = join_all((0..5).map(|_| listed.signer(&uri, list))).await;
        assert!(found.iter().all(Option::is_none));
        assert_eq!(lists.load(Ordering::Relaxed), 2);
    }
}
