//! What the store has of a session besides its states: which of them counts, and who changes it.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::session::{SessionError, Times, check_name, new_id};
use crate::store::{Blob, Condition, Put, Store, StoreError, Version};

/// The folder of all sessions in a store.
pub(super) const FOLDER: &str = "sessions";
/// The longest record, in bytes: labels and what the caller knows of a session are the most of it.
const MAX_HEAD: u64 = 1 << 20;
/// The version of the record. The first one had neither `born` nor `lapsed`.
const FORMAT: u32 = 2;
/// The most that is told of what was lost, should more be lost before somebody hears of it.
const MAX_LOST: usize = 8;
/// Of so many holds that lapsed the record tells.
const MAX_LAPSED: usize = 16;
/// The longest lease: another node is not believed to have a longer one.
pub(super) const MAX_LEASE: Duration = Duration::from_hours(1);

/// The record of a session. It is only ever replaced by a node that has read the version it replaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    pub format: u32,
    /// Drawn anew for each writing, so that no version comes twice.
    pub stamp: String,
    /// Drawn when the session was added: another that is added under the same id has another.
    #[serde(default)]
    pub born: String,
    /// How often somebody has taken it.
    pub epoch: u64,
    /// The epochs of the latest holds that were not given back, but taken over.
    #[serde(default)]
    pub lapsed: Vec<u64>,
    /// Who changes the session now.
    pub holder: Option<Holder>,
    /// The key of the state that counts.
    pub state: String,
    /// How many runs it is made of.
    pub execution: u64,
    /// The image that it is made from.
    pub image: String,
    /// What was lost that no outcome has told yet.
    pub lost: Vec<String>,
    /// Milliseconds since 1970 at the last change.
    pub used: u64,
    /// Milliseconds since 1970 when it was made.
    #[serde(default)]
    pub made: Option<u64>,
    /// Milliseconds since 1970 when it was last used: a change of what is known about it is no use.
    #[serde(default)]
    pub idle_since: Option<u64>,
    /// What the caller knows it by.
    pub about: Map<String, Value>,
}

/// A node that changes a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Holder {
    pub node: String,
    /// Milliseconds after which the node is gone, if it has not written the record again.
    pub lease: u64,
    /// The number of the run that goes on, if it is one.
    pub run: Option<u64>,
}

impl Holder {
    pub(super) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease).min(MAX_LEASE)
    }

    /// What is lost if it is gone.
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

    /// The session was changed, and has these times at this date. No clock that is behind the others'
    /// makes it idle for longer than it was.
    pub(super) fn changed(&mut self, times: Times, date: u64) {
        self.used = self.used.max(date);
        self.idle_since = self.idle_since.max(Some(before(date, times.idle)));
    }

    /// The times of the session at this date. Where the date is before those in the record, by a clock
    /// that is wrong, they are zero.
    pub(super) fn times(&self, date: u64) -> Times {
        let since = |then: Option<u64>| {
            then.map_or(Duration::ZERO, |then| Duration::from_millis(date.saturating_sub(then)))
        };
        Times {
            age: since(self.made),
            idle: since(self.idle_since),
        }
    }

    /// The record for `holder`, who takes the session from whoever had it.
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

    /// Whether the node that holds the session by `held` has written this as well: taking a session
    /// raises its epoch, so nobody else writes records of that epoch.
    pub(super) fn is_of_same_hold(&self, held: &Self) -> bool {
        self.born == held.born && self.epoch == held.epoch
    }

    /// Whether this was written after the hold by `held` had ended by giving the session back.
    pub(super) fn is_after_giving_back(&self, held: &Self) -> bool {
        let is_told = self.lapsed.len() < MAX_LAPSED || self.lapsed[0] <= held.epoch;
        self.born == held.born
            && self.epoch > held.epoch
            && is_told
            && !self.lapsed.contains(&held.epoch)
    }
}

/// The date so long before another.
fn before(date: u64, time: Duration) -> u64 {
    date.saturating_sub(time.as_millis().try_into().unwrap_or(u64::MAX))
}

fn key(id: &str) -> String {
    format!("{FOLDER}/{id}/head")
}

/// The id in the key of a record.
pub(super) fn id_of(key: &str) -> Option<&str> {
    key.strip_prefix(FOLDER)?.strip_prefix('/')?.strip_suffix("/head")
}

/// By which of those who have taken the session a state was written.
pub(super) fn epoch_of(key: &str) -> Option<u64> {
    let name = key.rsplit('/').next()?;
    name.split_once('-')?.0.parse().ok()
}

/// What is there when somebody wants the run interrupted for which a session was taken.
pub(super) fn stop_key(id: &str, epoch: u64) -> String {
    format!("{FOLDER}/{id}/{epoch}-stop")
}

pub(super) fn folder(id: &str) -> String {
    format!("{FOLDER}/{id}")
}

/// The record that is there.
pub(super) async fn read(store: &dyn Store, id: &str) -> Result<Option<(Head, Version)>, Error> {
    // What can be no session's id leads nowhere else.
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
    // What is read by it has to belong to the session.
    if !head.state.starts_with(&format!("{}/", folder(id))) {
        return Err(unreadable("its state is not its own".into()).into());
    }
    Ok(head)
}

/// What became of a record that was to be written.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time, on its way to the caller"
)]
pub(super) enum Written {
    /// It is there, as this version.
    Done(Version),
    /// Another is there, or none.
    Refused(Option<(Head, Version)>),
}

/// Makes the record, or replaces the version of it that is given. After an error it may have been
/// written, or be written yet.
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
    // A store may have written it, and failed to say so, or refused what it had written when it was
    // asked once more.
    match (put, store.get(&key, MAX_HEAD).await) {
        (_, Ok(Some(blob))) if blob.bytes == bytes => Ok(Written::Done(blob.version)),
        // Where what was to be replaced is still there, it may be replaced yet.
        (Err(error), Ok(there)) if there.as_ref().map(|blob| &blob.version) == instead => {
            Err(error.into())
        }
        (_, Ok(None)) => Ok(Written::Refused(None)),
        (_, Ok(Some(blob))) => Ok(Written::Refused(Some((parse(id, &blob.bytes)?, blob.version)))),
        (Err(error), _) | (_, Err(error)) => Err(error.into()),
    }
}

/// Removes the record. Whoever holds the session is refused when it writes the next time.
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
            // Also where it was so long ago that nobody knows.
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
