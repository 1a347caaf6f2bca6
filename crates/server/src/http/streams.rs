//! Streams of events that outlive their connections, so that clients can resume them.
//!
//! A task reads the events of a run and numbers them. One connection at a time sends them; the
//! latest events stay until newer ones need the room, because a lost connection does not tell what
//! has arrived.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use futures_util::{StreamExt, stream};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::identity;
use super::problem::Problem;
use super::sse::{self, Rest, Sent, Told, Watched, last, respond};
use super::stored_responses::Fingerprint;
use crate::lock::lock;
use crate::service::owner::Owner;

/// How long a stream may be without a connection between two events that are sent for the first
/// time.
const GRACE: Duration = Duration::from_secs(30);
/// How long a stream is kept whose last event was sent: it may not have arrived.
const SETTLED: Duration = Duration::from_secs(5);
/// Bytes of the latest events of a stream. One event may be larger.
const MAX_KEPT: usize = 16 << 20;
/// Bytes of all streams of a key. Beyond them, streams keep only what was not sent, and the largest
/// that have ended and have no connection are removed.
const MAX_OWN: usize = 64 << 20;
/// Likewise for all keys. Keys with less than `FAIR` are spared.
const MAX_ALL: usize = 256 << 20;
const FAIR: usize = 4 << 20;
/// Overhead of an event, in bytes.
const EVENT: usize = 128;
/// Streams of a key. The oldest that have ended and have no connection make room.
const MAX_STREAMS: usize = 1024;
/// Removed streams of a key whose ids are remembered, and for how long.
const MAX_GONE: usize = 16 << 10;
const GONE: Duration = Duration::from_mins(5);

/// Name of the owner, and the id that its client chose.
type Key = (String, String);

/// The streams that can be resumed.
pub(crate) struct Streams {
    all: Mutex<All>,
    /// Number of streams.
    count: Arc<AtomicUsize>,
    bytes: Arc<AtomicUsize>,
}

#[derive(Default)]
struct All {
    owners: HashMap<String, Own>,
    /// When the owners were last searched for those without streams.
    swept: Option<Instant>,
    /// Number of the newest stream.
    newest: u64,
}

/// The streams of a key.
#[derive(Default)]
struct Own {
    streams: HashMap<String, Arc<Stream>>,
    /// The ids of those that were removed, oldest first.
    gone: VecDeque<(Instant, String)>,
    gone_ids: HashSet<String>,
    bytes: Arc<AtomicUsize>,
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
    /// The session of the run, if it has one.
    session: Option<String>,
    /// Of the request that started the run.
    fingerprint: Fingerprint,
    /// Larger for newer streams.
    number: u64,
    /// Bytes of the key, and of all keys.
    own_bytes: Arc<AtomicUsize>,
    all_bytes: Arc<AtomicUsize>,
}

#[derive(Default)]
struct State {
    /// The latest events.
    events: VecDeque<Sent>,
    /// Number of the newest event; the first has 1.
    newest: u64,
    bytes: usize,
    /// Number of the newest event that the current connection has sent.
    sent: u64,
    /// Number of the newest event that any connection has sent.
    furthest: u64,
    /// The current connection, counted from 1.
    reader: u64,
    /// Since when there is no connection.
    alone: Option<Instant>,
    /// How long the stream may be without one.
    left: Duration,
    /// Why the run did not start.
    refused: Option<Problem>,
    is_started: bool,
    is_over: bool,
    is_removed: bool,
}

impl Streams {
    /// Keeps the number of streams in `count`.
    pub(crate) fn new(count: Arc<AtomicUsize>) -> Self {
        Self {
            all: Mutex::default(),
            count,
            bytes: Arc::default(),
        }
    }

    /// The stream with this id of a client's, or a place for it. Refuses an id that an earlier,
    /// different request has used.
    pub(crate) fn open(
        self: &Arc<Self>,
        owner: &Owner,
        session: Option<&str>,
        id: Option<&str>,
        fingerprint: Fingerprint,
    ) -> Result<Opened, Problem> {
        let Some(id) = id else {
            return Ok(Opened::Free(Place(None)));
        };
        let key = (owner.name().to_owned(), id.to_owned());
        let mut all = lock(&self.all);
        all.sweep();
        all.newest += 1;
        let number = all.newest;
        let own = all.owners.entry(key.0.clone()).or_default();
        if let Some(known) = own.find(id)? {
            let is_same = known.session.as_deref() == session
                && (known.fingerprint == fingerprint
                    || known.fingerprint.is_none()
                    || fingerprint.is_none());
            if !is_same {
                let detail = "this id is that of another request's stream";
                return Err(Problem::new(StatusCode::CONFLICT, "stream.taken", detail));
            }
            return Ok(Opened::Known(known));
        }
        if own.streams.len() >= MAX_STREAMS {
            let oldest = own.unattended(|_, stream| std::cmp::Reverse(stream.number));
            let Some(oldest) = oldest else {
                let detail = format!("this key has {MAX_STREAMS} streams that can be resumed");
                let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "limit", detail);
                return Err(again(problem));
            };
            self.take(own, &oldest, true);
        }
        let stream = Arc::new(Stream {
            state: Mutex::new(State {
                left: GRACE,
                ..State::default()
            }),
            changed: watch::Sender::default(),
            session: session.map(str::to_owned),
            fingerprint,
            number,
            own_bytes: Arc::clone(&own.bytes),
            all_bytes: Arc::clone(&self.bytes),
        });
        own.streams.insert(key.1.clone(), Arc::clone(&stream));
        self.count.fetch_add(1, Ordering::Relaxed);
        Ok(Opened::Free(Place(Some(Held {
            streams: Arc::clone(self),
            key,
            stream,
            is_started: false,
        }))))
    }

    pub(crate) fn find(&self, owner: &Owner, id: &str) -> Result<Arc<Stream>, Problem> {
        let mut all = lock(&self.all);
        let own = all.owners.get_mut(owner.name()).ok_or_else(not_found)?;
        own.find(id)?.ok_or_else(not_found)
    }

    /// Ends a stream and its run.
    pub(crate) fn end(&self, owner: &Owner, id: &str) -> Result<(), Problem> {
        let stream = self.find(owner, id)?;
        self.remove(&(owner.name().to_owned(), id.to_owned()), &stream, true);
        Ok(())
    }

    /// Removes a stream. `is_known` remembers its id: the code may have run.
    fn remove(&self, (name, id): &Key, stream: &Arc<Stream>, is_known: bool) {
        let mut all = lock(&self.all);
        if let Some(own) = all.owners.get_mut(name)
            && own.streams.get(id).is_some_and(|known| Arc::ptr_eq(known, stream))
        {
            self.take(own, id, is_known);
        }
    }

    fn take(&self, own: &mut Own, id: &str, is_known: bool) {
        let Some(stream) = own.streams.remove(id) else {
            return;
        };
        self.count.fetch_sub(1, Ordering::Relaxed);
        if is_known {
            own.remember(id);
        }
        stream.change(|state| {
            state.is_removed = true;
            state.events.clear();
            state.bytes = 0;
        });
    }

    /// Removes the largest streams that have ended and have no connection, while a key or the
    /// server keeps too much.
    fn relieve(&self, name: &str) {
        let is_over = |own: &Own| own.bytes.load(Ordering::Relaxed) > MAX_OWN;
        let is_all_over = || self.bytes.load(Ordering::Relaxed) > MAX_ALL;
        let mut all = lock(&self.all);
        loop {
            let own = if all.owners.get(name).is_some_and(is_over) {
                all.owners.get_mut(name)
            } else if is_all_over() {
                all.owners.values_mut().max_by_key(|own| own.bytes.load(Ordering::Relaxed))
            } else {
                None
            };
            let Some(own) = own else { return };
            let Some(largest) = own.unattended(|state, _| state.bytes) else {
                return;
            };
            self.take(own, &largest, true);
        }
    }
}

impl All {
    /// Forgets owners without streams, now and then.
    fn sweep(&mut self) {
        if self.swept.is_some_and(|swept| swept.elapsed() < GONE) {
            return;
        }
        self.swept = Some(Instant::now());
        self.owners.retain(|_, own| {
            own.forget();
            !own.streams.is_empty() || !own.gone.is_empty()
        });
    }
}

impl Own {
    fn find(&mut self, id: &str) -> Result<Option<Arc<Stream>>, Problem> {
        self.forget();
        match self.streams.get(id) {
            Some(stream) => Ok(Some(Arc::clone(stream))),
            None if self.gone_ids.contains(id) => Err(gone("the stream was removed")),
            None => Ok(None),
        }
    }

    /// The id of the stream with the largest rank among those that have ended and have no
    /// connection.
    fn unattended<R: Ord>(&self, rank: impl Fn(&State, &Stream) -> R) -> Option<String> {
        let ranked = self.streams.iter().filter_map(|(id, stream)| {
            let state = stream.lock();
            (state.is_over && state.alone.is_some()).then(|| (rank(&state, stream), id))
        });
        ranked.max_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, id)| id.clone())
    }

    fn remember(&mut self, id: &str) {
        self.gone.push_back((Instant::now(), id.to_owned()));
        self.gone_ids.insert(id.to_owned());
        self.forget();
    }

    /// Forgets the ids that were remembered for long, or are too many.
    fn forget(&mut self) {
        while self.gone.len() > MAX_GONE
            || self.gone.front().is_some_and(|(since, _)| since.elapsed() > GONE)
        {
            let Some((_, id)) = self.gone.pop_front() else {
                return;
            };
            self.gone_ids.remove(&id);
        }
    }
}

fn not_found() -> Problem {
    let detail = "there is no such stream: its run never started, or ended a while ago";
    Problem::new(StatusCode::NOT_FOUND, "stream.not_found", detail)
}

fn gone(detail: &str) -> Problem {
    Problem::new(StatusCode::GONE, "stream.gone", detail)
}

/// A problem after which a client asks again.
fn again(problem: Problem) -> Problem {
    Problem {
        retry_after: Some(Duration::from_secs(1)),
        ..problem
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_started {
            self.streams.remove(&self.key, &self.stream, false);
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
        let stream = Arc::clone(&held.stream);
        let reader = stream.start()?;
        held.is_started = true;
        let (streams, key) = (Arc::clone(&held.streams), held.key.clone());
        let revoked = identity::revocation().unwrap_or_default();
        let rest = Rest::begin(watched, run);
        tokio::spawn(fill(streams, key, Arc::clone(&stream), revoked, rest));
        match reader {
            Some(reader) => reader.response().await,
            None => Err(stream.unread()),
        }
    }
}

/// Reads a run to its end, or until its stream is abandoned.
async fn fill<T: Serialize + Send + 'static>(
    streams: Arc<Streams>,
    key: Key,
    stream: Arc<Stream>,
    revoked: CancellationToken,
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
            if stream.limit() == 0 {
                streams.relieve(&key.0);
            }
        }
    };
    tokio::select! {
        () = reading => {}
        () = stream.abandoned() => {}
        () = revoked.cancelled() => {}
    }
    drop(rest);
    stream.change(|state| state.is_over = true);
    let is_refused = stream.lock().refused.is_some();
    if !is_refused {
        tokio::select! {
            () = stream.abandoned() => {}
            () = revoked.cancelled() => {}
        }
    }
    streams.remove(&key, &stream, !is_refused);
}

impl Stream {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Changes the state, and counts its bytes.
    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let before = state.bytes;
        let changed = change(&mut state);
        let added = state.bytes.wrapping_sub(before);
        self.own_bytes.fetch_add(added, Ordering::Relaxed);
        self.all_bytes.fetch_add(added, Ordering::Relaxed);
        changed
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        self.update(change);
        self.changed.send_replace(());
    }

    /// Bytes that the stream may keep: none, beyond what was not sent, if there are too many.
    fn limit(&self) -> usize {
        let own = self.own_bytes.load(Ordering::Relaxed);
        let all = self.all_bytes.load(Ordering::Relaxed);
        if own > MAX_OWN || (all > MAX_ALL && own > FAIR) {
            0
        } else {
            MAX_KEPT
        }
    }

    fn push(&self, event: Sent) {
        let limit = self.limit();
        self.change(|state| {
            if state.is_removed {
                return;
            }
            state.bytes += size(&event);
            state.newest += 1;
            state.events.push_back(event);
            state.shrink(limit);
        });
    }

    /// Waits until the newest events have room.
    async fn room(&self) {
        let mut changed = self.changed.subscribe();
        while self.lock().is_full(self.limit()) {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until the stream was without a connection for too long.
    async fn abandoned(&self) {
        let mut changed = self.changed.subscribe();
        loop {
            let end = {
                let state = self.lock();
                if state.is_removed {
                    return;
                }
                state.alone.map(|since| since + state.left)
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

    /// The connection of the request that starts the run, unless a later one has come.
    fn start(self: &Arc<Self>) -> Result<Option<Reader>, Problem> {
        let mut state = self.lock();
        if state.is_removed {
            return Err(gone("the stream was removed"));
        }
        state.is_started = true;
        state.left = GRACE;
        if state.reader > 0 {
            state.alone = state.alone.map(|_| Instant::now());
            return Ok(None);
        }
        drop(state);
        self.reader(0).map(Some)
    }

    /// A connection that sends the events after a number, in place of an earlier one.
    fn reader(self: &Arc<Self>, after: u64) -> Result<Reader, Problem> {
        let mut state = self.lock();
        if state.is_removed || after > state.newest || after + 1 < state.oldest() {
            return Err(gone("the stream no longer has the events after this number"));
        }
        state.reader += 1;
        if let Some(since) = state.alone.take() {
            state.left = state.left.saturating_sub(since.elapsed());
        }
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

    /// Why a connection has no events.
    fn unread(&self) -> Problem {
        let state = self.lock();
        if let Some(refused) = &state.refused {
            return refused.clone();
        }
        if state.is_started && (state.is_removed || state.is_over) {
            return gone("the stream has ended");
        }
        // Another connection took its place, or the request that began it was lost.
        let detail = "the stream has no run yet, or another connection";
        again(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail))
    }
}

impl State {
    /// Whether a connection has to send events before there is room for others.
    fn is_full(&self, limit: usize) -> bool {
        self.bytes >= limit && self.sent < self.newest
    }

    /// Number of the oldest event that is kept.
    fn oldest(&self) -> u64 {
        self.newest - self.events.len() as u64 + 1
    }

    /// Forgets the oldest events that were sent, except the newest.
    fn shrink(&mut self, limit: usize) {
        while self.bytes >= limit && self.events.len() > 1 && self.oldest() <= self.sent {
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
            return Err(self.stream.unread());
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
            let limit = self.stream.limit();
            let next = self.stream.update(|state| {
                if state.reader != self.number || state.is_removed {
                    return None;
                }
                let at = (self.after + 1).checked_sub(state.oldest())?;
                match state.events.get(usize::try_from(at).ok()?).cloned() {
                    None if state.is_over || state.refused.is_some() => {
                        state.left = state.left.min(SETTLED);
                        None
                    }
                    None => Some(None),
                    Some(event) => {
                        self.after += 1;
                        state.sent = self.after;
                        if self.after > state.furthest {
                            state.furthest = self.after;
                            state.left = GRACE;
                        }
                        state.shrink(limit);
                        Some(Some(event))
                    }
                }
            })?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn place(streams: &Arc<Streams>, id: &str) -> Place {
        match streams.open(&Owner::local(), None, Some(id), None).unwrap() {
            Opened::Free(place) => place,
            Opened::Known(_) => panic!("{id} is known"),
        }
    }

    /// Runs what has an outcome of so many bytes.
    async fn run(streams: &Arc<Streams>, id: &str, size: usize) -> Response {
        let run = async move { Ok("x".repeat(size)) };
        place(streams, id).answer(Watched::default(), run).await.unwrap()
    }

    async fn read(response: Response) -> usize {
        axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap().len()
    }

    /// Waits until the task of a stream has seen its end.
    async fn over(streams: &Streams, id: &str) -> Arc<Stream> {
        let stream = streams.find(&Owner::local(), id).unwrap();
        while !stream.lock().is_over {
            tokio::task::yield_now().await;
        }
        stream
    }

    fn code(found: Result<Arc<Stream>, Problem>) -> &'static str {
        found.err().map_or("found", |problem| problem.code)
    }

    #[tokio::test]
    async fn ended_streams_make_room_for_others() {
        let streams = Arc::new(Streams::new(Arc::default()));
        let attended = run(&streams, "attended", 9).await;
        for number in 0..MAX_STREAMS + 9 {
            let id = number.to_string();
            read(run(&streams, &id, 9).await).await;
            over(&streams, &id).await;
        }
        assert_eq!(streams.count.load(Ordering::Relaxed), MAX_STREAMS);
        let find = |id: &str| code(streams.find(&Owner::local(), id));
        assert_eq!(
            (find("0"), find("99"), find("never")),
            ("stream.gone", "found", "stream.not_found")
        );
        assert!(read(attended).await > 9);
        // Those that run do not make room.
        let full: Vec<_> = (0..MAX_STREAMS).map(|n| place(&streams, &format!("new{n}"))).collect();
        let refused = streams.open(&Owner::local(), None, Some("more"), None).err().unwrap();
        assert_eq!((refused.code, refused.retry_after.is_some()), ("limit", true));
        drop(full);
        assert_eq!(streams.count.load(Ordering::Relaxed), 0);
        assert_eq!(code(streams.find(&Owner::local(), "new0")), "stream.not_found");
    }

    #[tokio::test]
    async fn the_bytes_of_a_key_are_bounded() {
        let streams = Arc::new(Streams::new(Arc::default()));
        let attended = run(&streams, "attended", MAX_KEPT / 2).await;
        for number in 0..12 {
            let id = number.to_string();
            drop(run(&streams, &id, MAX_KEPT / 2 + number).await);
            over(&streams, &id).await;
        }
        assert!(streams.bytes.load(Ordering::Relaxed) <= MAX_OWN);
        assert!(streams.count.load(Ordering::Relaxed) > 4);
        assert!(read(attended).await > MAX_KEPT / 2);
        for number in 0..12 {
            let _ = streams.end(&Owner::local(), &number.to_string());
        }
        streams.end(&Owner::local(), "attended").unwrap();
        assert_eq!(streams.bytes.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn hanging_up_does_not_keep_a_stream() {
        let streams = Arc::new(Streams::new(Arc::default()));
        drop(run(&streams, "id", 9).await);
        let stream = over(&streams, "id").await;
        let wait = Duration::from_millis(20);
        for _ in 0..3 {
            tokio::time::sleep(wait).await;
            drop(stream.resumed(0).await.unwrap());
        }
        assert!(stream.lock().left + wait * 3 <= GRACE);
        // Its end was sent: it goes soon.
        read(stream.resumed(0).await.unwrap()).await;
        assert!(stream.lock().left <= SETTLED);
        stream.change(|state| state.left = Duration::ZERO);
        tokio::time::timeout(GRACE / 2, stream.abandoned()).await.unwrap();
        while code(streams.find(&Owner::local(), "id")) != "stream.gone" {
            tokio::task::yield_now().await;
        }
    }
}
