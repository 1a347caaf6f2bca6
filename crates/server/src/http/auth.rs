//! API keys, and where requests carry them.

use std::sync::{Arc, PoisonError, RwLock};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine as _;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

use super::identity;
use crate::service::owner::{KeyLimits, Owner};

/// A key: its account, its hash and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Key {
    /// The name of the account.
    pub name: String,
    /// The SHA-256 of the key.
    pub sha256: [u8; 32],
    /// Limits of its holder.
    pub limits: KeyLimits,
    /// Whether its holder may read the metrics of all accounts.
    pub is_operator: bool,
}

/// The keys of a server. Clones share the same keys.
#[derive(Clone)]
pub struct Keys(Arc<Known>);

enum Known {
    /// No key is required.
    Everybody(Owner),
    /// Only holders of these keys are admitted.
    Holders(RwLock<Vec<Holder>>),
}

struct Holder {
    sha256: [u8; 32],
    owner: Owner,
    is_operator: bool,
    /// Cancelled when the key is revoked.
    revoked: CancellationToken,
    /// Cancelled when the account has lost its last key.
    closed: CancellationToken,
}

impl Key {
    /// Generates a key of 256 random bits. Returns its text, which is stored nowhere.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot provide random numbers.
    pub fn generate(name: impl Into<String>, limits: KeyLimits) -> std::io::Result<(Self, String)> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        let text = format!("belljar_{}", HEXLOWER.encode(&bytes));
        let key = Self {
            name: name.into(),
            sha256: hash(&text),
            limits,
            is_operator: false,
        };
        Ok((key, text))
    }
}

impl Keys {
    /// No key is required.
    #[must_use]
    pub fn none() -> Self {
        Self(Arc::new(Known::Everybody(Owner::local())))
    }

    /// One of these keys is required.
    #[must_use]
    pub fn of(keys: Vec<Key>) -> Self {
        let known = Self(Arc::new(Known::Holders(RwLock::default())));
        known.replace(keys);
        known
    }

    /// Replaces the keys. Accounts that still exist keep their usage. Open streams of removed keys
    /// are ended.
    pub fn replace(&self, keys: Vec<Key>) {
        let Known::Holders(holders) = &*self.0 else {
            return;
        };
        let mut holders = holders.write().unwrap_or_else(PoisonError::into_inner);
        let new = keys.into_iter().map(|key| {
            let known = holders.iter().find(|holder| holder.owner.name() == key.name);
            let (owner, closed) = known.map_or_else(
                || (Owner::new(key.name, key.limits.clone()), CancellationToken::new()),
                |known| (known.owner.clone(), known.closed.clone()),
            );
            owner.set_limits(key.limits);
            let same = known.filter(|known| known.sha256 == key.sha256);
            Holder {
                sha256: key.sha256,
                owner,
                is_operator: key.is_operator,
                revoked: same.map(|same| same.revoked.clone()).unwrap_or_default(),
                closed,
            }
        });
        let new: Vec<Holder> = new.collect();
        for old in holders.iter() {
            let account = new.iter().find(|holder| holder.owner.name() == old.owner.name());
            if account.is_none_or(|holder| holder.sha256 != old.sha256) {
                old.revoked.cancel();
            }
            if account.is_none() {
                old.closed.cancel();
            }
        }
        *holders = new;
        let first = holders.first().map(|holder| holder.owner.name().to_owned());
        let is_alone = holders.iter().all(|holder| Some(holder.owner.name()) == first.as_deref());
        for holder in holders.iter() {
            holder.owner.set_alone(is_alone);
        }
    }

    /// Whether a key is required.
    #[must_use]
    pub fn are_needed(&self) -> bool {
        matches!(*self.0, Known::Holders(_))
    }

    /// The holder of a key; `None` if the key is unknown, or required and missing.
    #[must_use]
    pub fn owner(&self, key: Option<&str>) -> Option<Owner> {
        let (owner, revoked) = self.find(key)?;
        if !identity::count_connection(owner.name()) {
            return None;
        }
        identity::set_owner(&owner);
        if let Some(revoked) = revoked {
            identity::set_revocation(&revoked);
        }
        Some(owner)
    }

    /// Whether an owner may read the metrics of all accounts: its key allows it, or it is the only
    /// account.
    pub(crate) fn are_for_operator(&self, owner: &Owner) -> bool {
        let Known::Holders(holders) = &*self.0 else {
            return true;
        };
        let holders = holders.read().unwrap_or_else(PoisonError::into_inner);
        let is_theirs = |holder: &Holder| holder.owner.name() == owner.name();
        holders.iter().any(|holder| is_theirs(holder) && holder.is_operator)
            || holders.iter().all(is_theirs)
    }

    /// Admits an account by other means than its key, such as a token; returns false if it has no
    /// key left.
    pub(crate) fn admits(&self, name: &str) -> bool {
        let Known::Holders(holders) = &*self.0 else {
            return true;
        };
        let holders = holders.read().unwrap_or_else(PoisonError::into_inner);
        let found = holders.iter().find(|holder| holder.owner.name() == name);
        found.inspect(|holder| identity::set_revocation(&holder.closed)).is_some()
            && identity::count_connection(name)
    }

    /// The account with this name, for objects known to belong to it.
    pub(crate) fn owner_named(&self, name: &str) -> Option<Owner> {
        match &*self.0 {
            Known::Everybody(owner) => (owner.name() == name).then(|| owner.clone()),
            Known::Holders(holders) => {
                let holders = holders.read().unwrap_or_else(PoisonError::into_inner);
                let found = holders.iter().find(|holder| holder.owner.name() == name);
                found.map(|holder| holder.owner.clone())
            }
        }
    }

    fn find(&self, key: Option<&str>) -> Option<(Owner, Option<CancellationToken>)> {
        match &*self.0 {
            Known::Everybody(owner) => Some((owner.clone(), None)),
            Known::Holders(holders) => {
                let sha256 = hash(key?);
                let holders = holders.read().unwrap_or_else(PoisonError::into_inner);
                // Compares all hashes, so that timing reveals nothing about the match.
                holders.iter().fold(None, |found, holder| {
                    let is_it: bool = holder.sha256.ct_eq(&sha256).into();
                    if is_it {
                        Some((holder.owner.clone(), Some(holder.revoked.clone())))
                    } else {
                        found
                    }
                })
            }
        }
    }

    /// The owner of the key in the headers, which may also be in [other forms](plain_key_in).
    pub(crate) fn owner_of_plain(&self, headers: &HeaderMap) -> Option<Owner> {
        self.owner_of(headers).or_else(|| self.owner(plain_key_in(headers).as_deref()))
    }

    /// The owner of the key in the headers.
    #[must_use]
    pub fn owner_of(&self, headers: &HeaderMap) -> Option<Owner> {
        self.owner(key_in(headers))
    }
}

/// The key in a bare `Authorization: KEY`, or in `Basic` authentication, which clients use for URLs
/// with a user name and password: the password, or else the user name.
pub(crate) fn plain_key_in(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let Some((scheme, rest)) = value.split_once(' ') else {
        return (!value.is_empty()).then(|| value.to_owned());
    };
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = base64::engine::general_purpose::STANDARD.decode(rest.trim()).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (name, password) = text.split_once(':').unwrap_or((&text, ""));
    Some(if password.is_empty() { name } else { password }.to_owned())
}

/// The key in `Authorization: Bearer KEY`, `Authorization: token KEY`, or `X-API-Key`.
#[must_use]
pub(crate) fn key_in(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let authorization = text(AUTHORIZATION.as_str()).and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        let is_known = ["bearer", "token"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
        is_known.then(|| key.trim())
    });
    authorization.or_else(|| text("x-api-key"))
}

fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())])
    }

    #[test]
    fn a_key_is_found_where_clients_put_it() {
        for (name, value) in [
            ("authorization", "Bearer k"),
            ("authorization", "token k"),
            ("Authorization", "bearer  k"),
            ("x-api-key", "k"),
        ] {
            let name = name.to_ascii_lowercase().leak();
            assert_eq!(key_in(&headers(name, value)), Some("k"), "{name}: {value}");
        }
        for (name, value) in [("authorization", "Basic k"), ("authorization", "k"), ("cookie", "k")]
        {
            assert_eq!(key_in(&headers(name, value)), None, "{name}: {value}");
        }
    }

    #[test]
    fn a_key_may_stand_plainly() {
        // `user:k`, `k:`, `k`
        for value in ["k", "Basic dXNlcjpr", "basic azo=", "Basic aw=="] {
            assert_eq!(
                plain_key_in(&headers("authorization", value)).as_deref(),
                Some("k"),
                "{value}"
            );
        }
        for value in ["", " ", "Basic !", "Basic /w==", "Digest k", "Bearer k"] {
            assert_eq!(plain_key_in(&headers("authorization", value)), None, "{value}");
        }
    }

    #[test]
    fn only_who_holds_a_key_is_somebody() {
        let (one, text) = Key::generate("one", KeyLimits::default()).unwrap();
        let (two, other) = Key::generate("two", KeyLimits::default()).unwrap();
        let keys = Keys::of(vec![one, two]);
        let name = |key: Option<&str>| keys.owner(key).map(|owner| owner.name().to_owned());
        assert_eq!(name(Some(&text)).as_deref(), Some("one"));
        assert_eq!(name(Some(&other)).as_deref(), Some("two"));
        assert_eq!(name(Some(&text[1..])), None);
        assert_eq!(name(Some("")), None);
        assert_eq!(name(None), None);
        assert_eq!(Keys::none().owner(None).unwrap().name(), "local");
    }

    #[test]
    fn an_account_goes_on_when_its_key_changes() {
        let (key, text) = Key::generate("one", KeyLimits::default()).unwrap();
        let keys = Keys::of(vec![key]);
        let before = keys.owner(Some(&text)).unwrap();
        let limits = KeyLimits {
            sessions: Some(3),
            ..KeyLimits::default()
        };
        let (key, new) = Key::generate("one", limits).unwrap();
        keys.replace(vec![key]);
        assert!(keys.owner(Some(&text)).is_none());
        assert_eq!(keys.owner(Some(&new)).unwrap().limits().sessions, Some(3));
        assert_eq!(before.limits().sessions, Some(3));
    }

    #[test]
    fn what_is_open_with_a_key_learns_that_it_was_revoked() {
        let made = |name| Key::generate(name, KeyLimits::default()).unwrap();
        let ((one, text), (two, other)) = (made("one"), made("two"));
        let keys = Keys::of(vec![one, two.clone()]);
        let revoked = |text: &str| keys.find(Some(text)).unwrap().1.unwrap();
        let (first, second) = (revoked(&text), revoked(&other));
        let (one, _) = made("one");
        keys.replace(vec![one.clone(), two.clone()]);
        assert!(first.is_cancelled() && !second.is_cancelled());
        assert!(keys.admits("one"), "the account has another key");
        keys.replace(vec![one]);
        assert!(second.is_cancelled() && !keys.admits("two"));
    }
}
