//! A store whose operations are measured.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use belljar::store::{Answer, AtHand, Blob, Condition, Entry, Put, Store};
use bytes::Bytes;

use super::metrics::{Operation, StoreTimes};

/// Measures the operations of a store, failed ones too. Reads through [`AtHand`] are not measured.
pub(super) struct TimedStore {
    store: Arc<dyn Store>,
    times: StoreTimes,
}

impl TimedStore {
    pub(super) fn new(store: Arc<dyn Store>, times: StoreTimes) -> Self {
        Self { store, times }
    }

    fn time<'a, T>(&'a self, operation: &'static str, answer: Answer<'a, T>) -> Answer<'a, T>
    where
        T: 'a,
    {
        Box::pin(async move {
            let started = Instant::now();
            let answer = answer.await;
            let seconds = started.elapsed().as_secs_f64();
            self.times.get_or_create(&Operation { operation }).observe(seconds);
            answer
        })
    }
}

impl fmt::Debug for TimedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

impl Store for TimedStore {
    fn get<'a>(&'a self, key: &'a str, max: u64) -> Answer<'a, Option<Blob>> {
        self.time("get", self.store.get(key, max))
    }

    fn put<'a>(&'a self, key: &'a str, bytes: Bytes, condition: Condition) -> Answer<'a, Put> {
        self.time("put", self.store.put(key, bytes, condition))
    }

    fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Entry>> {
        self.time("list", self.store.list(folder))
    }

    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        self.time("delete", self.store.delete(key))
    }

    fn at_hand(&self) -> Option<&dyn AtHand> {
        self.store.at_hand()
    }
}
