//! Cache of files of runs, results and responses that clients may request again.
//!
//! Each owner has its own cache with its own limit. The owner's least recently used entries are
//! evicted, so that no owner affects another.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;

use super::owner::Owner;
use super::{Service, Shared};
use crate::lock::lock;

/// Maximum memory of an owner's cache, in bytes, independent of the key's limits.
pub(crate) const MAX_MEMORY: u64 = 64 << 20;
/// Maximum size of an owner's cache in memory and on disk, in bytes, if the key has no limit.
pub(crate) const MAX_BYTES: u64 = 4 << 30;

/// Memory overhead of an entry, in bytes.
const ENTRY: u64 = 512;

/// A type of cached object.
pub(crate) trait Cached: Any + Send + Sync {
    /// Time to live.
    const TIME: Duration;
    /// Whether each use restarts the time to live.
    const RENEWED_BY_USE: bool = false;
    /// Maximum number of entries of this type per owner.
    const MAX: usize;

    /// Memory of the object, in bytes.
    fn memory(&self) -> u64;

    /// Bytes that count against the key's limit, including files on disk.
    fn stored(&self) -> u64 {
        self.memory()
    }
}

/// The caches of all owners, by owner name.
#[derive(Default)]
pub(crate) struct Caches(Mutex<HashMap<String, OwnerCache>>);

/// The cache of an owner.
#[derive(Default)]
struct OwnerCache {
    entries: HashMap<Key, Entry>,
    /// Entries by last use, least recent first.
    order: BTreeMap<u64, Key>,
    uses: u64,
    counts: HashMap<TypeId, usize>,
    size: Size,
    /// The owner, for the key's limits.
    owner: Option<Owner>,
    /// Lower bound of all expiry times.
    ends: Option<Instant>,
}

type Key = (TypeId, Arc<str>);

struct Entry {
    item: Arc<dyn Any + Send + Sync>,
    size: Size,
    use_: u64,
    ends: Instant,
}

#[derive(Clone, Copy, Default)]
struct Size {
    /// Bytes in memory, including overhead.
    memory: u64,
    /// Bytes that count against the key's limit.
    stored: u64,
}

/// Evicted objects, dropped outside the lock because dropping may delete directories.
type Gone = Vec<Arc<dyn Any + Send + Sync>>;

impl Service {
    /// Caches an object, replacing an entry with the same id. Returns false if it exceeds the
    /// owner's limit.
    pub(crate) fn cache<T: Cached>(&self, owner: &Owner, id: &str, item: Arc<T>) -> bool {
        let room = self.cache_limit(owner);
        let mut caches = self.shared.caches.lock();
        let theirs = caches.entry(owner.name().to_owned()).or_default();
        let (fits, gone) = theirs.put(owner, id, item, room);
        drop(caches);
        drop(gone);
        fits
    }

    /// Returns a cached object and records its use.
    pub(crate) fn cached<T: Cached>(&self, owner: &Owner, id: &str) -> Option<Arc<T>> {
        let mut caches = self.shared.caches.lock();
        caches.get_mut(owner.name())?.find(id)
    }

    /// Returns a cached object, or creates and caches it.
    pub(crate) fn cached_or_insert<T: Cached>(
        &self,
        owner: &Owner,
        id: &str,
        new: impl FnOnce() -> T,
    ) -> Arc<T> {
        let room = self.cache_limit(owner);
        let mut caches = self.shared.caches.lock();
        let theirs = caches.entry(owner.name().to_owned()).or_default();
        if let Some(found) = theirs.find(id) {
            return found;
        }
        let made = Arc::new(new());
        let (_, gone) = theirs.put(owner, id, Arc::clone(&made), room);
        drop(caches);
        drop(gone);
        made
    }

    /// Limit of an owner's cache in bytes: the key's limit minus the size of sessions.
    pub(crate) fn cache_limit(&self, owner: &Owner) -> u64 {
        let left = |max: u64| max.saturating_sub(self.shared.session_bytes(owner));
        owner.limits().stored_bytes.map_or(MAX_BYTES, left).min(MAX_BYTES)
    }

    /// All cached objects of a type, least recently used first.
    pub(crate) fn all_cached<T: Cached>(&self, owner: &Owner) -> Vec<(Arc<str>, Arc<T>)> {
        let caches = self.shared.caches.lock();
        caches.get(owner.name()).map(OwnerCache::all).unwrap_or_default()
    }

    /// Removes an object from the cache.
    pub(crate) fn uncache<T: Cached>(&self, owner: &Owner, id: &str) -> Option<Arc<T>> {
        let mut caches = self.shared.caches.lock();
        let gone = caches.get_mut(owner.name())?.remove(&(TypeId::of::<T>(), id.into()));
        drop(caches);
        gone?.downcast().ok()
    }

    /// Clears all caches.
    pub(super) fn clear_caches(&self) {
        let gone = std::mem::take(&mut *self.shared.caches.lock());
        drop(gone);
    }

    /// Evicts expired entries, and entries beyond their owners' limits.
    pub(super) fn sweep_caches(&self) {
        let owners: Vec<Owner> =
            self.shared.caches.lock().values().filter_map(|cache| cache.owner.clone()).collect();
        let rooms: HashMap<String, u64> =
            owners.iter().map(|owner| (owner.name().to_owned(), self.cache_limit(owner))).collect();
        let mut gone = Gone::new();
        self.shared.caches.lock().retain(|name, cache| {
            gone.extend(cache.evict_expired(Instant::now()));
            let room = rooms.get(name).copied().unwrap_or(MAX_BYTES);
            gone.extend(cache.evict(room, None));
            !cache.entries.is_empty()
        });
        drop(gone);
    }
}

impl Shared {
    /// Whether no owner has cache entries.
    pub(super) fn has_empty_caches(&self) -> bool {
        self.caches.lock().values().all(|cache| cache.entries.is_empty())
    }

    /// Size of an owner's cache in bytes.
    pub(super) fn cached_bytes_of(&self, owner: &Owner) -> u64 {
        self.caches.lock().get(owner.name()).map_or(0, |cache| cache.size.stored)
    }

    /// Size of all caches in bytes.
    pub(super) fn cached_bytes(&self) -> u64 {
        self.caches.lock().values().map(|cache| cache.size.stored).sum()
    }
}

impl Caches {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, OwnerCache>> {
        lock(&self.0)
    }
}

impl Size {
    fn of(id: &str, item: &impl Cached) -> Self {
        Self {
            memory: item.memory().saturating_add(ENTRY + id.len() as u64),
            stored: item.stored(),
        }
    }
}

impl OwnerCache {
    fn put<T: Cached>(&mut self, owner: &Owner, id: &str, item: Arc<T>, room: u64) -> (bool, Gone) {
        let key = (TypeId::of::<T>(), Arc::from(id));
        let mut gone = Gone::from_iter(self.remove(&key));
        let size = Size::of(id, &*item);
        if size.memory > MAX_MEMORY || size.stored > room {
            gone.push(item);
            return (false, gone);
        }
        let ends = Instant::now() + T::TIME;
        self.owner = Some(owner.clone());
        self.ends = Some(self.ends.map_or(ends, |first| first.min(ends)));
        self.uses += 1;
        self.size.memory += size.memory;
        self.size.stored += size.stored;
        *self.counts.entry(key.0).or_default() += 1;
        self.order.insert(self.uses, key.clone());
        let entry = Entry {
            item,
            size,
            use_: self.uses,
            ends,
        };
        self.entries.insert(key.clone(), entry);
        while self.counts.get(&key.0).is_some_and(|count| *count > T::MAX)
            && let Some(oldest) = self.order.values().find(|other| other.0 == key.0).cloned()
        {
            gone.extend(self.remove(&oldest));
        }
        gone.extend(self.evict(room, Some(&key)));
        (true, gone)
    }

    /// Evicts least recently used entries until the rest fits.
    fn evict(&mut self, room: u64, but: Option<&Key>) -> Gone {
        let mut gone = Gone::new();
        while self.size.memory > MAX_MEMORY || self.size.stored > room {
            let Some(oldest) = self.order.values().find(|key| Some(*key) != but).cloned() else {
                break;
            };
            gone.extend(self.remove(&oldest));
        }
        gone
    }

    fn find<T: Cached>(&mut self, id: &str) -> Option<Arc<T>> {
        let key = (TypeId::of::<T>(), Arc::from(id));
        let entry = self.entries.get_mut(&key)?;
        let now = Instant::now();
        if entry.ends <= now {
            return None;
        }
        if T::RENEWED_BY_USE {
            entry.ends = now + T::TIME;
            self.uses += 1;
            self.order.remove(&entry.use_);
            entry.use_ = self.uses;
            self.order.insert(self.uses, key);
        }
        Arc::clone(&entry.item).downcast().ok()
    }

    fn all<T: Cached>(&self) -> Vec<(Arc<str>, Arc<T>)> {
        let now = Instant::now();
        let theirs = self.order.values().filter(|key| key.0 == TypeId::of::<T>());
        let found = theirs.filter_map(|key| {
            let entry = self.entries.get(key).filter(|entry| entry.ends > now)?;
            Some((Arc::clone(&key.1), Arc::clone(&entry.item).downcast().ok()?))
        });
        found.collect()
    }

    fn remove(&mut self, key: &Key) -> Option<Arc<dyn Any + Send + Sync>> {
        let entry = self.entries.remove(key)?;
        self.order.remove(&entry.use_);
        self.size.memory -= entry.size.memory;
        self.size.stored -= entry.size.stored;
        if let Some(count) = self.counts.get_mut(&key.0) {
            *count -= 1;
        }
        Some(entry.item)
    }

    /// Evicts expired entries.
    fn evict_expired(&mut self, now: Instant) -> Gone {
        if self.ends.is_none_or(|ends| ends > now) {
            return Gone::new();
        }
        let over: Vec<Key> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.ends <= now)
            .map(|(key, _)| key.clone())
            .collect();
        let gone = over.iter().filter_map(|key| self.remove(key)).collect();
        self.ends = self.entries.values().map(|entry| entry.ends).min();
        gone
    }
}

/// A random id of 128 bits as text; `None` if the system cannot provide random numbers.
pub(crate) fn new_id() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(HEXLOWER.encode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::owner::KeyLimits;

    struct Thing(u64);

    impl Cached for Thing {
        const TIME: Duration = Duration::from_mins(1);
        const RENEWED_BY_USE: bool = true;
        const MAX: usize = 3;

        fn memory(&self) -> u64 {
            self.0
        }
    }

    fn owner(name: &str) -> Owner {
        Owner::new(name, KeyLimits::default())
    }

    fn put(cache: &mut OwnerCache, id: &str, bytes: u64, room: u64) -> bool {
        cache.put(&owner("a"), id, Arc::new(Thing(bytes)), room).0
    }

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let mut cache = OwnerCache::default();
        assert!(put(&mut cache, "one", 4, 10));
        assert!(put(&mut cache, "two", 4, 10));
        assert!(cache.find::<Thing>("one").is_some());
        assert!(put(&mut cache, "three", 4, 10));
        assert!(cache.find::<Thing>("two").is_none());
        assert!(cache.find::<Thing>("one").is_some());
        assert_eq!(cache.size.stored, 8);
        // An oversized object evicts nothing except the entry with its id.
        assert!(!put(&mut cache, "huge", 11, 10));
        assert!(!put(&mut cache, "one", 11, 10));
        assert_eq!(cache.size.stored, 4);
    }

    #[test]
    fn there_are_as_many_of_a_kind_as_may_be_and_no_more_in_memory() {
        let mut cache = OwnerCache::default();
        for id in ["a", "b", "c", "d"] {
            assert!(put(&mut cache, id, 0, 0));
        }
        assert!(cache.find::<Thing>("a").is_none());
        assert_eq!(cache.entries.len(), 3);
        assert!(put(&mut cache, "large", MAX_MEMORY - 4 * ENTRY, u64::MAX));
        assert!(put(&mut cache, "larger", MAX_MEMORY - 2 * ENTRY, u64::MAX));
        assert_eq!(cache.entries.len(), 1);
        assert!(cache.size.memory <= MAX_MEMORY);
    }

    #[test]
    fn what_is_over_is_gone() {
        let mut cache = OwnerCache::default();
        put(&mut cache, "a", 4, 10);
        assert!(cache.evict_expired(Instant::now()).is_empty());
        assert_eq!(cache.evict_expired(Instant::now() + Thing::TIME).len(), 1);
        assert_eq!((cache.size.memory, cache.size.stored, cache.order.len()), (0, 0, 0));
    }

    #[test]
    fn any_order_of_uses_keeps_the_books() {
        proptest::proptest!(|(steps in proptest::collection::vec((0_u8..3, 0_u8..6, 0_u64..9), 0..60))| {
            let mut cache = OwnerCache::default();
            for (what, id, bytes) in steps {
                let id = id.to_string();
                match what {
                    0 => drop(put(&mut cache, &id, bytes, 20)),
                    1 => drop(cache.find::<Thing>(&id)),
                    _ => drop(cache.remove(&(TypeId::of::<Thing>(), id.as_str().into()))),
                }
                let sum: u64 = cache.entries.values().map(|entry| entry.size.stored).sum();
                assert_eq!(cache.size.stored, sum);
                assert!(sum <= 20 && cache.entries.len() <= Thing::MAX);
                assert_eq!(cache.order.len(), cache.entries.len());
                assert_eq!(cache.counts.values().sum::<usize>(), cache.entries.len());
            }
        });
    }
}
