//! API keys, and where requests carry them.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine as _;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

use super::identity;
use crate::service::owner::{KeyLimits, Owner};

/// A key of an account. An account may have several, which share its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Key {
    /// The name of the account.
    pub name: String,
    /// The SHA-256 of the key.
    pub sha256: [u8; 32],
    /// The limits of the account.
    pub limits: KeyLimits,
    /// Whether the account may read the metrics of all accounts.
    pub is_operator: bool,
    /// When the key was created, if known.
    pub created: Option<SystemTime>,
    /// When the key stops being accepted.
    pub expires: Option<SystemTime>,
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

#[derive(Clone)]
struct Holder {
    key: Key,
    owner: Owner,
    /// Cancelled when the key is revoked or expires.
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
        let mut key = Self::of_text(name, limits, &text);
        // Key files have whole seconds.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        key.created = Some(UNIX_EPOCH + Duration::from_secs(now.as_secs()));
        Ok((key, text))
    }

    /// The key with this text.
    #[must_use]
    pub fn of_text(name: impl Into<String>, limits: KeyLimits, text: &str) -> Self {
        Self {
            name: name.into(),
            sha256: hash(text),
            limits,
            is_operator: false,
            created: None,
            expires: None,
        }
    }

    /// A short name for the key in lists: the beginning of its hash.
    #[must_use]
    pub fn id(&self) -> String {
        id_of(&self.sha256)
    }

    /// Whether the key has expired.
    #[must_use]
    pub fn is_expired(&self, now: SystemTime) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
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

    /// Replaces the keys. Accounts keep their usage. Streams, sockets and runs opened with a
    /// removed key are ended.
    pub fn replace(&self, keys: Vec<Key>) {
        let Known::Holders(holders) = &*self.0 else {
            return;
        };
        let mut holders = holders.write().unwrap_or_else(PoisonError::into_inner);
        let mut new: Vec<Holder> = Vec::with_capacity(keys.len());
        for key in keys {
            let is_theirs = |holder: &&Holder| holder.owner.name() == key.name;
            let account = new.iter().chain(holders.iter()).find(is_theirs);
            let (owner, closed) = account.map_or_else(
                || (Owner::new(key.name.clone(), key.limits.clone()), CancellationToken::new()),
                |account| (account.owner.clone(), account.closed.clone()),
            );
            owner.set_limits(key.limits.clone());
            let mut own = holders.iter().filter(is_theirs);
            let same = own.find(|holder| holder.key.sha256 == key.sha256);
            new.push(Holder {
                revoked: same.map(|same| same.revoked.clone()).unwrap_or_default(),
                owner,
                key,
                closed,
            });
        }
        set(&mut holders, new, SystemTime::now());
    }

    /// Ends what was opened with keys that have expired.
    pub(crate) fn end_expired(&self, now: SystemTime) {
        let Known::Holders(holders) = &*self.0 else {
            return;
        };
        let is_any = holders
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .any(|holder| holder.key.is_expired(now));
        if is_any {
            let mut holders = holders.write().unwrap_or_else(PoisonError::into_inner);
            let new = holders.clone();
            set(&mut holders, new, now);
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
        let caller = identity::caller(|| key.filter(|_| self.are_needed()).map(key_id));
        let owner = owner.called_by(caller);
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
        holders.iter().any(|holder| is_theirs(holder) && holder.key.is_operator)
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

    /// The number of accounts.
    #[must_use]
    pub fn accounts(&self) -> usize {
        self.names().len()
    }

    /// The names of all accounts.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        match &*self.0 {
            Known::Everybody(owner) => BTreeSet::from([owner.name().to_owned()]),
            Known::Holders(holders) => {
                let holders = holders.read().unwrap_or_else(PoisonError::into_inner);
                holders.iter().map(|holder| holder.owner.name().to_owned()).collect()
            }
        }
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
                let now = SystemTime::now();
                // Compares all hashes, so that timing reveals nothing about the match.
                holders.iter().fold(None, |found, holder| {
                    let is_it: bool = holder.key.sha256.ct_eq(&sha256).into();
                    if is_it && !holder.key.is_expired(now) {
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

/// Replaces the holders by those of `new` whose keys have not expired, and ends what was opened
/// with other keys.
fn set(holders: &mut Vec<Holder>, mut new: Vec<Holder>, now: SystemTime) {
    new.retain(|holder| !holder.key.is_expired(now));
    for old in holders.iter() {
        let mut account = new.iter().filter(|holder| holder.owner.name() == old.owner.name());
        if account.clone().next().is_none() {
            old.closed.cancel();
        }
        if account.all(|holder| holder.key.sha256 != old.key.sha256) {
            old.revoked.cancel();
        }
    }
    *holders = new;
    let first = holders.first().map(|holder| holder.owner.name().to_owned());
    let is_alone = holders.iter().all(|holder| Some(holder.owner.name()) == first.as_deref());
    for holder in holders.iter() {
        holder.owner.set_alone(is_alone);
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

/// The id that a key with this text has.
pub(crate) fn key_id(key: &str) -> String {
    id_of(&hash(key))
}

fn id_of(sha256: &[u8; 32]) -> String {
    HEXLOWER.encode(&sha256[..4])
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

    #[test]
    fn an_account_may_have_two_keys_and_each_ends_alone() {
        let made = |name| Key::generate(name, KeyLimits::default()).unwrap();
        let ((old, first), (new, second)) = (made("one"), made("one"));
        let keys = Keys::of(vec![old.clone()]);
        let revoked = |text: &str| keys.find(Some(text)).unwrap().1.unwrap();
        let before = revoked(&first);
        keys.replace(vec![old, new.clone()]);
        let (one, other) = (keys.owner(Some(&first)).unwrap(), keys.owner(Some(&second)).unwrap());
        one.set_limits(KeyLimits {
            sessions: Some(3),
            ..KeyLimits::default()
        });
        assert_eq!(other.limits().sessions, Some(3), "they are one account");
        let after = revoked(&second);
        assert!(!before.is_cancelled());
        keys.replace(vec![new]);
        assert!(before.is_cancelled() && !after.is_cancelled());
        assert!(keys.owner(Some(&first)).is_none() && keys.owner(Some(&second)).is_some());
    }

    #[test]
    fn a_key_ends_when_it_expires() {
        let now = SystemTime::now();
        let hour = Duration::from_hours(1);
        let (mut key, text) = Key::generate("one", KeyLimits::default()).unwrap();
        key.expires = Some(now + hour);
        let keys = Keys::of(vec![key.clone()]);
        let open = keys.find(Some(&text)).unwrap().1.unwrap();
        keys.end_expired(now);
        assert!(!open.is_cancelled() && keys.owner(Some(&text)).is_some());
        keys.end_expired(now + hour);
        assert!(open.is_cancelled() && keys.owner(Some(&text)).is_none());
        assert!(!keys.admits("one"));
        key.expires = Some(now);
        assert!(Keys::of(vec![key]).owner(Some(&text)).is_none());
    }
}
