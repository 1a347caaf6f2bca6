//! Identifies the account of a request, by its key or by a token of an E2B sandbox.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, Method, Uri};

use super::account::{Account, TAG_LENGTH, tag};
use super::worker::User;
use super::workers::Workers;
use crate::faces::e2b::credentials::{addressed, token};
use crate::http::app::Settings;
use crate::http::auth::Keys;
use crate::http::face::Face;
use crate::lock::lock;
use crate::service::owner::Owner;

/// Headers with keys, which workers do not get.
const KEYS: [HeaderName; 5] = [
    AUTHORIZATION,
    COOKIE,
    PROXY_AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-auth-token"),
];

/// The account of a request, and whether the request has the account's key. Otherwise it has a
/// token of a sandbox, and the worker checks what the token allows.
pub(super) struct Whose {
    pub owner: Owner,
    pub account: Arc<Account>,
    pub has_key: bool,
    /// The running worker that a request without key and token gets. It must not start one.
    pub running: Option<User>,
}

/// Finds accounts by the prefixes of their sandbox ids: account names by prefix, and the time of
/// the last update.
#[derive(Default)]
pub(super) struct Tags(Mutex<(HashMap<String, String>, Option<Instant>)>);

/// Minimum interval of updates, since clients can send any prefix.
const REST: Duration = Duration::from_secs(1);

impl Whose {
    /// Identifies the account; `None` if the request has no valid key or token.
    pub(super) fn of(
        request: &Request,
        keys: &Keys,
        settings: &Settings,
        workers: &Workers,
        tags: &Tags,
    ) -> Option<Self> {
        let (headers, uri) = (request.headers(), request.uri());
        let has_e2b = settings.faces.has(Face::E2b);
        if has_e2b && let Some(sandbox) = addressed(headers, uri) {
            let account = tags.account(&sandbox, keys, workers)?;
            if account.credentials.are_shown(&sandbox, headers, uri) {
                return Self::of_sandbox(account, keys);
            }
            // E2B allows anyone to ask whether a sandbox is running.
            let is_question =
                uri.path() == "/health" && [Method::GET, Method::HEAD].contains(request.method());
            let running = is_question.then(|| account.enter()).flatten()?.unnoticed();
            return Some(Self {
                running: Some(running),
                ..Self::of_sandbox(account, keys)?
            });
        }
        if let Some(owner) = keyed(headers, uri, keys, settings) {
            let account = workers.account(owner.name());
            return Some(Self {
                owner,
                account,
                has_key: true,
                running: None,
            });
        }
        let token = token(headers).filter(|_| has_e2b)?;
        let account = tags.account(token, keys, workers)?;
        let is_shown = account.credentials.is_token(token);
        is_shown.then(|| Self::of_sandbox(account, keys)).flatten()
    }

    pub(super) fn of_sandbox(account: Arc<Account>, keys: &Keys) -> Option<Self> {
        let owner = keys.owner_named(&account.name).filter(|owner| keys.admits(owner.name()))?;
        Some(Self {
            owner,
            account,
            has_key: false,
            running: None,
        })
    }
}

/// The owner of the key in a request, in any of the places that the enabled interfaces accept.
fn keyed(headers: &HeaderMap, uri: &Uri, keys: &Keys, settings: &Settings) -> Option<Owner> {
    let has = |face| settings.faces.has(face);
    keys.owner_of(headers)
        .or_else(|| {
            let is_plain = [Face::Piston, Face::Judge0, Face::SandboxFusion].into_iter().any(has);
            is_plain.then(|| keys.owner_of_plain(headers)).flatten()
        })
        .or_else(|| {
            let token = headers.get("x-auth-token")?.to_str().ok().filter(|_| has(Face::Judge0))?;
            keys.owner(Some(token))
        })
        .or_else(|| {
            let token = tokens(uri).next().filter(|_| has(Face::Jupyter))?;
            keys.owner(Some(token))
        })
}

/// The keys in the query of a request to Jupyter's interface.
fn tokens(uri: &Uri) -> impl Iterator<Item = &str> {
    let query = uri.query().filter(|_| is_jupyter(uri.path())).unwrap_or_default();
    query.split('&').filter_map(|pair| pair.strip_prefix("token="))
}

fn is_jupyter(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/") || path.starts_with("/kernelspecs/")
}

/// Removes all keys from a request.
pub(super) fn strip(headers: &mut HeaderMap, uri: &mut Uri) {
    for name in KEYS {
        headers.remove(name);
    }
    if tokens(uri).next().is_none() {
        return;
    }
    let query = uri.query().unwrap_or_default();
    let others: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("token=")).collect();
    let text = if others.is_empty() {
        uri.path().to_owned()
    } else {
        format!("{}?{}", uri.path(), others.join("&"))
    };
    if let Ok(rest) = PathAndQuery::try_from(text) {
        *uri = Uri::from(rest);
    }
}

impl Tags {
    /// The account named by a sandbox id or token, which may be forged.
    fn account(&self, id: &str, keys: &Keys, workers: &Workers) -> Option<Arc<Account>> {
        let shown = id.get(..TAG_LENGTH)?;
        let mut known = lock(&self.0);
        let (tags, made) = &mut *known;
        if !tags.contains_key(shown) && made.is_none_or(|made| made.elapsed() > REST) {
            *tags = keys.names().into_iter().map(|name| (tag(&name), name)).collect();
            *made = Some(Instant::now());
        }
        let name = tags.get(shown).filter(|name| keys.owner_named(name).is_some())?;
        Some(workers.account(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_reaches_a_worker() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer k"),
            ("authorization", "Basic azo="),
            ("x-api-key", "k"),
            ("x-auth-token", "k"),
            ("cookie", "k"),
            ("x-access-token", "of a sandbox"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        let mut uri = Uri::from_static("/api/kernels/1/channels?token=k&session_id=a&token=k");
        strip(&mut headers, &mut uri);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-access-token"]);
        assert_eq!(uri, "/api/kernels/1/channels?session_id=a");
        for (before, after) in [
            ("/api?token=k", "/api"),
            ("/api/x?a=1", "/api/x?a=1"),
            ("/submissions?token=k", "/submissions?token=k"),
        ] {
            let mut uri: Uri = before.parse().unwrap();
            strip(&mut HeaderMap::new(), &mut uri);
            assert_eq!(uri, after);
        }
    }
}
