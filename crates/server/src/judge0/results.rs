//! What submissions came to, kept for whoever asks for it by its token.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::service::owner::Owner;

/// How long they are kept, and how many bytes of one owner; the oldest go first.
const KEPT: Duration = Duration::from_hours(1);
const MAX_BYTES: usize = 64 << 20;

/// What each of them takes beside its text.
const OVERHEAD: usize = 1 << 10;

/// The results of all owners. Cheap to clone; clones are the same.
#[derive(Clone, Default)]
pub(super) struct Results(Arc<Mutex<HashMap<String, Kept>>>);

/// What one owner has, the oldest first.
#[derive(Default)]
struct Kept {
    results: VecDeque<Result>,
    bytes: usize,
}

struct Result {
    token: String,
    fields: Arc<Map<String, Value>>,
    bytes: usize,
    since: Instant,
}

impl Results {
    /// Keeps a result.
    pub(super) fn put(&self, owner: &Owner, token: String, fields: Arc<Map<String, Value>>) {
        let text: usize = fields.values().filter_map(Value::as_str).map(str::len).sum();
        let mut owners = self.owners();
        let kept = owners.entry(owner.name().to_owned()).or_default();
        let bytes = text + OVERHEAD;
        kept.bytes += bytes;
        kept.results.push_back(Result {
            token,
            fields,
            bytes,
            since: Instant::now(),
        });
        kept.make_room();
    }

    /// An owner's result.
    pub(super) fn find(&self, owner: &Owner, token: &str) -> Option<Arc<Map<String, Value>>> {
        let mut owners = self.owners();
        let kept = owners.get_mut(owner.name())?;
        kept.make_room();
        let found = kept.results.iter().find(|result| result.token == token)?;
        Some(Arc::clone(&found.fields))
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn make_room(&mut self) {
        let is_over = |kept: &Self| {
            let oldest = kept.results.front();
            oldest.is_some_and(|oldest| kept.bytes > MAX_BYTES || oldest.since.elapsed() > KEPT)
        };
        while is_over(self)
            && let Some(gone) = self.results.pop_front()
        {
            self.bytes -= gone.bytes;
        }
    }
}

/// A token that nobody can guess, in the form of a UUID of version 4.
pub(super) fn new_token() -> io::Result<String> {
    use std::fmt::Write;
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::owner::KeyLimits;

    #[test]
    fn a_result_is_its_owners_and_the_oldest_go_first() {
        let results = Results::default();
        let (one, two) =
            (Owner::new("one", KeyLimits::default()), Owner::new("two", KeyLimits::default()));
        let put = |token: &str, bytes: usize| {
            let fields = Map::from_iter([("stdout".to_owned(), Value::from("x".repeat(bytes)))]);
            results.put(&one, token.into(), Arc::new(fields));
        };
        put("old", MAX_BYTES / 2);
        put("new", MAX_BYTES / 4);
        assert!(results.find(&one, "old").is_some());
        assert!(results.find(&two, "old").is_none());
        put("newest", MAX_BYTES / 2);
        assert!(results.find(&one, "old").is_none());
        assert!(results.find(&one, "new").is_some());
    }

    #[test]
    fn a_token_looks_like_a_uuid() {
        let token = new_token().unwrap();
        let lengths: Vec<usize> = token.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(&token[14..15], "4");
        assert_ne!(token, new_token().unwrap());
    }
}
