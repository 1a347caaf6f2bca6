//! The record of a session in the store: its current state and its lease holder.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::session::{SessionError, Times, check_name, new_id};
use crate::store::{Blob, Condition, Put, Store, StoreError, Version};

/// Folder of all sessions in a store.
pub(super) const FOLDER: &str = "sessions";
/// Maximum size of a record, in bytes. Labels and the caller's data are its largest parts.
const MAX_HEAD: u64 = 1 << 20;
/// Version of the record format. Version 1 had neither `born` nor `lapsed`.
const FORMAT: u32 = 2;
/// Maximum number of losses that the record lists before an outcome reports them.
const MAX_LOST: usize = 8;
/// Maximum number of lapsed holds that the record lists.
const MAX_LAPSED: usize = 16;
/// Maximum lease. A longer lease in another node's record is cut to this.
pub(super) const MAX_LEASE: Duration = Duration::from_hours(1);

/// The record of a session. Only a node that has read the current version can replace it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    pub format: u32,
    /// Random for each write, so that no two versions are equal.
    pub stamp: String,
    /// Random for each added session: a session added later under the same id has another value.
    #[serde(default)]
    pub born: String,
    /// Number of times that the session was taken.
    pub epoch: u64,
    /// Epochs of the latest holds that ended by a takeover instead of a release.
    #[serde(default)]
    pub lapsed: Vec<u64>,
    /// The node that currently holds the session.
    pub holder: Option<Holder>,
    /// Key of the current state.
    pub state: String,
    /// Number of completed runs.
    pub execution: u64,
    /// Image of the session.
    pub image: String,
    /// Losses that no outcome has reported yet.
    pub lost: Vec<String>,
    /// Time of the last change, in milliseconds since 1970.
    pub used: u64,
    /// Creation time, in milliseconds since 1970.
    #[serde(default)]
    pub made: Option<u64>,
    /// Time of the last use, in milliseconds since 1970. A change of the caller's data is not a
    /// use.
    #[serde(default)]
    pub idle_since: Option<u64>,
    /// Data that the caller stored with the session.
    pub about: Map<String, Value>,
}

/// The node that holds a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Holder {
    pub node: String,
    /// Lease in milliseconds: the node counts as dead if it does not rewrite the record within this
    /// time.
    pub lease: u64,
    /// Number of the current run, if the session was taken for a run.
    pub run: Option<u64>,
}

impl Holder {
    pub(super) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease).min(MAX_LEASE)
    }

    /// Describes what is lost if the node is dead.
    fn loss(&self) -> String {
        let Self { node, run, .. } = self;
        let what = match run {
            Some(run) => format!("run {run}"),
            None => "a change".to_owned(),
        };
        format!("{what} was lost: node {node} went away before its end was written down")
    }
}

impl Head {
    pub(super) fn new(
        image: String,
        state: String,
        execution: u64,
        about: Map<String, Value>,
        born: String,
        (times, date): (Times, u64),
    ) -> Self {
        Self {
            format: FORMAT,
            stamp: String::new(),
            born,
            epoch: 0,
            lapsed: Vec::new(),
            holder: None,
            state,
            execution,
            image,
            lost: Vec::new(),
            used: date,
            made: Some(before(date, times.age)),
            idle_since: Some(before(date, times.idle)),
            about,
        }
    }

    /// Records a change of the session, with its times at this date. A clock that is behind other
    /// nodes' clocks does not increase the idle time.
    pub(super) fn changed(&mut self, times: Times, date: u64) {
        self.used = self.used.max(date);
        self.idle_since = self.idle_since.max(Some(before(date, times.idle)));
    }

    /// Returns the session's times at this date. If the date is before the times in the record
    /// because a clock is wrong, they are zero.
    pub(super) fn times(&self, date: u64) -> Times {
        let since = |then: Option<u64>| {
            then.map_or(Duration::ZERO, |then| Duration::from_millis(date.saturating_sub(then)))
        };
        Times {
            age: since(self.made),
            idle: since(self.idle_since),
        }
    }

    /// Returns the record after `holder` has taken the session from its previous holder.
    pub(super) fn taken_by(&self, holder: Holder) -> Self {
        let mut lost = self.lost.clone();
        lost.extend(self.holder.as_ref().map(Holder::loss));
        let surplus = lost.len().saturating_sub(MAX_LOST);
        lost.drain(..surplus);
        let mut lapsed = self.lapsed.clone();
        lapsed.extend(self.holder.as_ref().map(|_| self.epoch));
        let surplus = lapsed.len().saturating_sub(MAX_LAPSED);
        lapsed.drain(..surplus);
        Self {
            format: FORMAT,
            epoch: self.epoch + 1,
            holder: Some(holder),
            lost,
            lapsed,
            ..self.clone()
        }
    }

    /// Whether this record was written under the same hold as `held`. Taking a session raises its
    /// epoch, so no other node writes records with that epoch.
    pub(super) fn is_of_same_hold(&self, held: &Self) -> bool {
        self.born == held.born && self.epoch == held.epoch
    }

    /// Whether this record was written after the hold `held` had ended by a release.
    pub(super) fn is_after_giving_back(&self, held: &Self) -> bool {
        let is_told = self.lapsed.len() < MAX_LAPSED || self.lapsed[0] <= held.epoch;
        self.born == held.born
            && self.epoch > held.epoch
            && is_told
            && !self.lapsed.contains(&held.epoch)
    }
}

/// Returns the date that is `time` before `date`.
fn before(date: u64, time: Duration) -> u64 {
    date.saturating_sub(time.as_millis().try_into().unwrap_or(u64::MAX))
}

fn key(id: &str) -> String {
    format!("{FOLDER}/{id}/head")
}

/// Returns the session id in the key of a record.
pub(super) fn id_of(key: &str) -> Option<&str> {
    key.strip_prefix(FOLDER)?.strip_prefix('/')?.strip_suffix("/head")
}

/// Returns the epoch of the hold that wrote a state.
pub(super) fn epoch_of(key: &str) -> Option<u64> {
    let name = key.rsplit('/').next()?;
    name.split_once('-')?.0.parse().ok()
}

/// Returns the key of the note that asks the holder with this epoch to interrupt its run.
pub(super) fn stop_key(id: &str, epoch: u64) -> String {
    format!("{FOLDER}/{id}/{epoch}-stop")
}

pub(super) fn folder(id: &str) -> String {
    format!("{FOLDER}/{id}")
}

/// Reads the current record.
pub(super) async fn read(store: &dyn Store, id: &str) -> Result<Option<(Head, Version)>, Error> {
    // An invalid id must not lead to another key.
    if check_name(id).is_err() {
        return Ok(None);
    }
    let Some(Blob { bytes, version }) = store.get(&key(id), MAX_HEAD).await? else {
        return Ok(None);
    };
    Ok(Some((parse(id, &bytes)?, version)))
}

fn parse(id: &str, bytes: &[u8]) -> Result<Head, Error> {
    let unreadable = |why: String| SessionError::Record { id: id.into(), why };
    let format = serde_json::from_slice::<Value>(bytes).map_err(|e| unreadable(e.to_string()))?;
    let version = format.get("format").and_then(Value::as_u64);
    if !version.is_some_and(|version| (1..=u64::from(FORMAT)).contains(&version)) {
        return Err(unreadable("another version of belljar has written it".into()).into());
    }
    let head: Head = serde_json::from_value(format).map_err(|e| unreadable(e.to_string()))?;
    // The state must belong to this session.
    if !head.state.starts_with(&format!("{}/", folder(id))) {
        return Err(unreadable("its state is not its own".into()).into());
    }
    Ok(head)
}

/// Result of writing a record.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time, on its way to the caller"
)]
pub(super) enum Written {
    /// The record was written as this version.
    Done(Version),
    /// The store has another record or no record.
    Refused(Option<(Head, Version)>),
}

/// Creates the record, or replaces the given version. After an error, the record may have been
/// written or may still be written.
pub(super) async fn write(
    store: &dyn Store,
    id: &str,
    head: &mut Head,
    instead: Option<&Version>,
) -> Result<Written, Error> {
    head.stamp = new_id()?;
    let bytes = Bytes::from(serde_json::to_vec(&head).map_err(|error| SessionError::Record {
        id: id.into(),
        why: error.to_string(),
    })?);
    let condition = instead.map_or(Condition::Absent, |version| Condition::Is(version.clone()));
    let key = key(id);
    let put = store.put(&key, bytes.clone(), condition).await;
    if let Ok(Put::Written(version)) = put {
        return Ok(Written::Done(version));
    }
    // The store may have written the record without confirming it, or have rejected a retry of a
    // write that had succeeded.
    match (put, store.get(&key, MAX_HEAD).await) {
        (_, Ok(Some(blob))) if blob.bytes == bytes => Ok(Written::Done(blob.version)),
        // If the old version is still there, the write may still be applied later.
        (Err(error), Ok(there)) if there.as_ref().map(|blob| &blob.version) == instead => {
            Err(error.into())
        }
        (_, Ok(None)) => Ok(Written::Refused(None)),
        (_, Ok(Some(blob))) => Ok(Written::Refused(Some((parse(id, &blob.bytes)?, blob.version)))),
        (Err(error), _) | (_, Err(error)) => Err(error.into()),
    }
}

/// Removes the record. The next write of a node that holds the session is rejected.
pub(super) async fn remove(store: &dyn Store, id: &str) -> Result<(), StoreError> {
    store.delete(&key(id)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let (about, times) = (Map::new(), Times::default());
        Head::new("core".into(), "sessions/a/1-x".into(), 3, about, "b".into(), (times, 1_000))
    }

    fn holder(run: Option<u64>) -> Holder {
        Holder {
            node: "n".into(),
            lease: 1000,
            run,
        }
    }

    #[test]
    fn what_a_node_had_that_is_gone_is_told() {
        let mut head = head().taken_by(holder(Some(4)));
        assert_eq!((head.epoch, head.lost.len()), (1, 0));
        head = head.taken_by(holder(None));
        assert_eq!(head.lost, ["run 4 was lost: node n went away before its end was written down"]);
        for _ in 0..20 {
            head = head.taken_by(holder(None));
        }
        assert_eq!(head.lost.len(), MAX_LOST);
    }

    #[test]
    fn a_record_says_which_holds_were_given_back() {
        let held = head().taken_by(holder(Some(1)));
        let free = Head {
            holder: None,
            ..held.clone()
        };
        assert!(free.is_of_same_hold(&held));
        assert!(free.taken_by(holder(None)).is_after_giving_back(&held));
        let mut later = held.taken_by(holder(None));
        assert!(!later.is_of_same_hold(&held) && !later.is_after_giving_back(&held));
        for _ in 0..40 {
            later = later.taken_by(holder(None));
            // Also if the release was too long ago to be listed.
            assert!(!later.is_after_giving_back(&held));
        }
        let other = Head {
            born: "another".into(),
            ..free
        };
        assert!(!other.is_of_same_hold(&held));
        assert!(!other.taken_by(holder(None)).is_after_giving_back(&held));
    }

    #[test]
    fn a_record_of_another_format_or_with_a_state_elsewhere_is_refused() {
        let text = |head: &Head| serde_json::to_vec(head).unwrap();
        let fine = head();
        assert_eq!(parse("a", &text(&fine)).unwrap(), fine);
        for state in ["sessions/b/1-x", "names/x", "sessions/ab/x"] {
            let head = Head {
                state: state.into(),
                ..head()
            };
            assert!(parse("a", &text(&head)).is_err(), "{state}");
        }
        let other = Head {
            format: 3,
            ..head()
        };
        let error = parse("a", &text(&other)).unwrap_err().to_string();
        assert!(error.contains("another version of belljar"), "{error}");
        assert!(parse("a", b"{}").is_err() && parse("a", b"\xff").is_err());
        let first = br#"{"format":1,"stamp":"s","epoch":7,"holder":null,"state":"sessions/a/7-x",
            "execution":3,"image":"core","lost":[],"used":1,"about":{}}"#;
        assert_eq!(parse("a", first).unwrap().epoch, 7);
    }

    #[tokio::test]
    async fn a_record_that_was_written_without_an_answer_is_written() {
        #[derive(Debug, Default)]
        struct Mute(crate::store::MemoryStore);

        impl Store for Mute {
            fn get<'a>(&'a self, key: &'a str, max: u64) -> crate::store::Answer<'a, Option<Blob>> {
                self.0.get(key, max)
            }

            fn put<'a>(
                &'a self,
                key: &'a str,
                bytes: Bytes,
                condition: Condition,
            ) -> crate::store::Answer<'a, Put> {
                Box::pin(async move {
                    let _ = self.0.put(key, bytes, condition).await?;
                    Err(StoreError::failed("write", key)("no answer"))
                })
            }

            fn list<'a>(
                &'a self,
                folder: &'a str,
            ) -> crate::store::Answer<'a, Vec<crate::store::Entry>> {
                self.0.list(folder)
            }

            fn delete<'a>(&'a self, key: &'a str) -> crate::store::Answer<'a, ()> {
                self.0.delete(key)
            }
        }

        let store = Mute::default();
        let mut first = head();
        let written = write(&store, "a", &mut first, None).await.unwrap();
        assert!(matches!(written, Written::Done(_)));
        let other = write(&store, "a", &mut head(), None).await.unwrap();
        assert!(matches!(other, Written::Refused(Some((there, _))) if there == first));
        let (found, _) = read(&store, "a").await.unwrap().unwrap();
        assert_eq!(found, first);
    }
}
