//! Streams of events that outlive their connections, so that clients can resume them.
//!
//! A task reads the events of a run and numbers them. One connection at a time sends them; the
//! latest events stay until newer ones need the room, because a lost connection does not tell what
//! has arrived.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use futures_util::{StreamExt, stream};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

use super::problem::Problem;
use super::sse::{self, Rest, Sent, Told, Watched, last, respond};
use crate::lock::lock;
use crate::service::owner::Owner;

/// How long a stream is kept without a connection.
const GRACE: Duration = Duration::from_secs(30);
/// Bytes of the latest events of a stream. One event may be larger.
const MAX_KEPT: usize = 16 << 20;
/// Overhead of an event, in bytes.
const EVENT: usize = 128;
/// Streams of a key.
const MAX_STREAMS: usize = 1024;
/// Bytes of the streams that have ended. The oldest go first.
const MAX_ENDED: usize = 64 << 20;

/// Name of the owner, and the id that its client chose.
type Key = (String, String);

/// The streams that can be resumed.
#[derive(Default)]
pub(crate) struct Streams(Mutex<All>);

#[derive(Default)]
struct All {
    streams: HashMap<Key, Arc<Stream>>,
    /// Those that have ended, oldest first, with their sizes.
    ended: VecDeque<(Key, Arc<Stream>, usize)>,
}

/// The stream of a request.
pub(crate) enum Opened {
    /// A stream that an earlier request has started.
    Known(Arc<Stream>),
    /// A place for a new one.
    Free(Place),
}

/// A place for a stream. If it is dropped without a run, the stream does not exist.
pub(crate) struct Place(Option<Held>);

struct Held {
    streams: Arc<Streams>,
    key: Key,
    stream: Arc<Stream>,
    is_started: bool,
}

/// The events of a run.
pub(crate) struct Stream {
    state: Mutex<State>,
    /// Tells readers and the writer that the state has changed.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    /// The latest events.
    events: VecDeque<Sent>,
    /// Number of the newest event; the first has 1.
    newest: u64,
    bytes: usize,
    /// Number of the newest event that a connection has sent.
    sent: u64,
    /// The current connection, counted from 1.
    reader: u64,
    /// Since when there is no connection.
    alone: Option<Instant>,
    /// Why the run did not start.
    refused: Option<Problem>,
    is_over: bool,
    is_removed: bool,
}

impl Streams {
    /// The stream with this id of a client's, or a place for it.
    pub(crate) fn open(
        self: &Arc<Self>,
        owner: &Owner,
        id: Option<&str>,
    ) -> Result<Opened, Problem> {
        let Some(id) = id else {
            return Ok(Opened::Free(Place(None)));
        };
        let key = (owner.name().to_owned(), id.to_owned());
        let mut all = lock(&self.0);
        if let Some(known) = all.streams.get(&key) {
            return Ok(Opened::Known(Arc::clone(known)));
        }
        if all.streams.keys().filter(|(name, _)| *name == key.0).count() >= MAX_STREAMS {
            let detail = format!("this key has {MAX_STREAMS} streams that can be resumed");
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "limit", detail));
        }
        let stream = Arc::new(Stream {
            state: Mutex::new(State {
                alone: Some(Instant::now()),
                ..State::default()
            }),
            changed: watch::Sender::default(),
        });
        all.streams.insert(key.clone(), Arc::clone(&stream));
        Ok(Opened::Free(Place(Some(Held {
            streams: Arc::clone(self),
            key,
            stream,
            is_started: false,
        }))))
    }

    pub(crate) fn find(&self, owner: &Owner, id: &str) -> Result<Arc<Stream>, Problem> {
        let key = (owner.name().to_owned(), id.to_owned());
        lock(&self.0).streams.get(&key).cloned().ok_or_else(not_found)
    }

    /// Ends a stream and its run.
    pub(crate) fn end(&self, owner: &Owner, id: &str) -> Result<(), Problem> {
        let stream = self.find(owner, id)?;
        self.remove(&(owner.name().to_owned(), id.to_owned()), &stream);
        Ok(())
    }

    fn remove(&self, key: &Key, stream: &Arc<Stream>) {
        let mut all = lock(&self.0);
        if all.streams.get(key).is_some_and(|known| Arc::ptr_eq(known, stream)) {
            all.streams.remove(key);
        }
        all.ended.retain(|(_, ended, _)| !Arc::ptr_eq(ended, stream));
        drop(all);
        stream.change(|state| state.is_removed = true);
    }

    /// Bounds what streams keep that have ended.
    fn ended(&self, key: &Key, stream: &Arc<Stream>) {
        let size = stream.lock().bytes;
        let mut all = lock(&self.0);
        all.ended.push_back((key.clone(), Arc::clone(stream), size));
        let mut total: usize = all.ended.iter().map(|(_, _, size)| size).sum();
        let mut gone = Vec::new();
        while total > MAX_ENDED && all.ended.len() > 1 {
            if let Some((key, stream, size)) = all.ended.pop_front() {
                total -= size;
                gone.push((key, stream));
            }
        }
        drop(all);
        for (key, stream) in gone {
            self.remove(&key, &stream);
        }
    }
}

fn not_found() -> Problem {
    let detail = "there is no such stream: its run never started, or ended a while ago";
    Problem::new(StatusCode::NOT_FOUND, "stream.not_found", detail)
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_started {
            self.streams.remove(&self.key, &self.stream);
        }
    }
}

impl Place {
    /// Starts a run and streams its events.
    pub(crate) async fn answer<T: Serialize + Send + 'static>(
        self,
        watched: Watched,
        run: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> Result<Response, Problem> {
        let Some(mut held) = self.0 else {
            return sse::answer(watched, run).await;
        };
        held.is_started = true;
        let (streams, key) = (Arc::clone(&held.streams), held.key.clone());
        let stream = Arc::clone(&held.stream);
        let reader = stream.reader(0);
        tokio::spawn(fill(streams, key, Arc::clone(&stream), Rest::begin(watched, run)));
        reader?.response().await
    }
}

/// Reads a run to its end, or until its stream is abandoned.
async fn fill<T: Serialize + Send + 'static>(
    streams: Arc<Streams>,
    key: Key,
    stream: Arc<Stream>,
    mut rest: Rest<T>,
) {
    let reading = async {
        loop {
            stream.room().await;
            match rest.next().await {
                Some(Told::Event(event)) => stream.push(event),
                Some(Told::Outcome(Err(problem))) if stream.lock().newest == 0 => {
                    // The client may send the request again.
                    stream.change(|state| state.refused = Some(problem));
                    return;
                }
                Some(Told::Outcome(outcome)) => stream.push(last(outcome)),
                None => return,
            }
        }
    };
    tokio::select! {
        () = reading => {}
        () = stream.abandoned() => {}
    }
    drop(rest);
    stream.change(|state| state.is_over = true);
    if stream.lock().refused.is_none() {
        streams.ended(&key, &stream);
        stream.abandoned().await;
    }
    streams.remove(&key, &stream);
}

impl Stream {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.send_replace(());
    }

    fn push(&self, event: Sent) {
        self.change(|state| {
            state.bytes += size(&event);
            state.newest += 1;
            state.events.push_back(event);
            state.shrink();
        });
    }

    /// Waits until the newest events have room.
    async fn room(&self) {
        let mut changed = self.changed.subscribe();
        while self.lock().is_full() {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until no connection has wanted the stream for a while.
    async fn abandoned(&self) {
        let mut changed = self.changed.subscribe();
        loop {
            let end = {
                let state = self.lock();
                if state.is_removed {
                    return;
                }
                state.alone.map(|since| since + GRACE)
            };
            let late = async {
                match end {
                    Some(end) => tokio::time::sleep_until(end).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = changed.changed() => {}
                () = late => return,
            }
        }
    }

    /// A connection that sends the events after a number, in place of an earlier one.
    fn reader(self: &Arc<Self>, after: u64) -> Result<Reader, Problem> {
        let mut state = self.lock();
        if after > state.newest || after + 1 < state.oldest() {
            let detail = "the stream no longer has the events after this number";
            return Err(Problem::new(StatusCode::GONE, "stream.gone", detail));
        }
        state.reader += 1;
        state.alone = None;
        state.sent = after;
        let number = state.reader;
        drop(state);
        self.changed.send_replace(());
        Ok(Reader {
            stream: Arc::clone(self),
            number,
            after,
        })
    }

    /// A response with the events after a number.
    pub(crate) async fn resumed(self: &Arc<Self>, after: u64) -> Result<Response, Problem> {
        self.reader(after)?.response().await
    }
}

impl State {
    /// Whether a connection has to send events before there is room for others.
    fn is_full(&self) -> bool {
        self.bytes >= MAX_KEPT && self.sent < self.newest
    }

    /// Number of the oldest event that is kept.
    fn oldest(&self) -> u64 {
        self.newest - self.events.len() as u64 + 1
    }

    /// Forgets the oldest events that were sent, except the newest.
    fn shrink(&mut self) {
        while self.bytes >= MAX_KEPT && self.events.len() > 1 && self.oldest() <= self.sent {
            let Some(event) = self.events.pop_front() else {
                return;
            };
            self.bytes -= size(&event);
        }
    }
}

fn size(event: &Sent) -> usize {
    event.name.len() + event.data.len() + EVENT
}

/// The connection of a stream.
struct Reader {
    stream: Arc<Stream>,
    number: u64,
    /// Number of the last event sent.
    after: u64,
}

impl Reader {
    async fn response(mut self) -> Result<Response, Problem> {
        let Some(first) = self.next().await else {
            let refused = self.stream.lock().refused.clone();
            return Err(refused.unwrap_or_else(not_found));
        };
        let others = stream::unfold(self, |mut reader| async {
            let (number, event) = reader.next().await?;
            Some(((number, event), reader))
        });
        let events = stream::once(std::future::ready(first)).chain(others);
        Ok(respond(events.map(|(number, event)| event.written().id(number.to_string()))))
    }

    /// The next event with its number. `None` after the last, and after another connection took
    /// this one's place.
    async fn next(&mut self) -> Option<(u64, Sent)> {
        let mut changed = self.stream.changed.subscribe();
        loop {
            let next = {
                let mut state = self.stream.lock();
                if state.reader != self.number || state.is_removed {
                    return None;
                }
                let at = (self.after + 1).checked_sub(state.oldest())?;
                match state.events.get(usize::try_from(at).ok()?).cloned() {
                    None if state.is_over || state.refused.is_some() => return None,
                    None => None,
                    Some(event) => {
                        self.after += 1;
                        state.sent = self.after;
                        state.shrink();
                        Some(event)
                    }
                }
            };
            match next {
                Some(event) => {
                    self.stream.changed.send_replace(());
                    return Some((self.after, event));
                }
                None => changed.changed().await.ok()?,
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.stream.lock();
        if state.reader == self.number {
            state.alone = Some(Instant::now());
            drop(state);
            self.stream.changed.send_replace(());
        }
    }
}
