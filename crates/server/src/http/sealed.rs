//! Bodies are sealed until it is known who sends them.
//!
//! The outermost layer takes the body from each request. A handler gets it back from [`open`], which wants the
//! [`Owner`] that the request was authenticated as; extractors that skip this find an empty body. What is read
//! into memory is taken from one budget of the process, in which each owner has a share.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{Extensions, HeaderMap};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::{StreamExt, future, stream};
use http_body_util::Limited;
use hyper::body::{Frame, SizeHint};

use super::app::App;
use super::bounds::UNIT;
use super::pace::Pace;
use super::shares::Share;
use super::unread::BodyError;
use crate::service::owner::Owner;

/// Bodies of at most this length are discarded before a refusal is answered. With a body unread, the connection
/// would end, and a client that keeps connections would find it gone with its next request.
const MAX_DISCARDED: u64 = 64 << 10;
/// How long discarding may take.
const DISCARD_TIME: Duration = Duration::from_secs(1);

/// How a body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Into memory, as a whole: it counts against the budget and the bound of bodies.
    Whole,
    /// Into a file, up to this many bytes.
    File(u64),
    /// Piece by piece, as long as its sender wants. The reader takes room for what it keeps.
    Pieces,
}

/// A body that nobody has opened, and what was taken from the budget for it since.
#[derive(Clone)]
pub(crate) struct Sealed {
    app: App,
    body: Arc<Mutex<Option<Body>>>,
    room: Room,
}

/// Room in the budget, held until the request is answered.
#[derive(Clone)]
pub(crate) struct Room(Arc<Mutex<Vec<Share>>>);

/// Seals the body of a request.
pub(crate) async fn seal(State(app): State<App>, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let is_small = length(&parts.headers).is_some_and(|length| length <= MAX_DISCARDED);
    let sealed = Sealed {
        app,
        body: Arc::new(Mutex::new(Some(body))),
        room: Room(Arc::default()),
    };
    parts.extensions.insert(sealed.clone());
    let response = next.run(Request::from_parts(parts, Body::empty())).await;
    let unread = sealed.lock().take();
    if let (Some(body), true) = (unread, is_small) {
        let rest = body.into_data_stream().take_while(|piece| future::ready(piece.is_ok()));
        let _ = tokio::time::timeout(DISCARD_TIME, rest.for_each(|_| future::ready(()))).await;
    }
    if sealed.room.lock().is_empty() {
        return response;
    }
    response.map(|body| {
        Body::new(Holding {
            body,
            _room: sealed.room,
        })
    })
}

/// Drops all extensions of a request but its body.
pub(crate) fn clear_others(extensions: &mut Extensions) {
    let sealed = extensions.remove::<Sealed>();
    extensions.clear();
    if let Some(sealed) = sealed {
        extensions.insert(sealed);
    }
}

/// Whether a request has a body, sealed or not.
pub(crate) fn has_body(request: &Request) -> bool {
    request.extensions().get::<Sealed>().is_some() || !request.body().is_end_stream()
}

/// Changes what the body of a request will be when it is opened.
pub(crate) fn wrap(request: &Request, change: impl FnOnce(Body) -> Body) {
    if let Some(sealed) = request.extensions().get::<Sealed>() {
        let mut body = sealed.lock();
        *body = body.take().map(change);
    }
}

/// Gives a request its body, which is `owner`'s.
pub(crate) fn open(mut request: Request, owner: &Owner, reading: Reading) -> Request {
    let Some(sealed) = request.extensions_mut().remove::<Sealed>() else {
        return request;
    };
    let body = sealed.lock().take().unwrap_or_default();
    *request.body_mut() = sealed.metered(body, owner, reading);
    request
}

/// All of a request's body, in memory.
pub(crate) async fn whole(request: Request, owner: &Owner) -> Result<Bytes, BodyError> {
    let max = request.extensions().get::<Sealed>().map(|sealed| sealed.app.settings().body_bytes);
    let too_long = BodyError::TooLong(max.unwrap_or_default() as u64);
    // Refused before it is read, where it says so itself.
    if length(request.headers()).zip(max).is_some_and(|(length, max)| length > max as u64) {
        return Err(too_long);
    }
    let body = open(request, owner, Reading::Whole).into_body();
    axum::body::to_bytes(body, usize::MAX).await.map_err(|error| match BodyError::of(&error) {
        BodyError::TooLong(_) => too_long,
        other => other,
    })
}

/// How long a request says that its body is.
pub(crate) fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl Sealed {
    fn lock(&self) -> MutexGuard<'_, Option<Body>> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A body that fails when it comes too slowly, is too long, or there is no room for it.
    fn metered(&self, body: Body, owner: &Owner, reading: Reading) -> Body {
        let (max, pace) = match reading {
            Reading::Whole => (self.app.settings().body_bytes as u64, true),
            Reading::File(max) => (max, true),
            Reading::Pieces => return body,
        };
        let reader = Reader {
            body,
            pace: pace.then(Pace::default),
            taking: (reading == Reading::Whole).then(|| Taking {
                room: self.room.clone(),
                ..Taking::new(self.app.clone(), owner.clone())
            }),
        };
        let pieces = stream::try_unfold(reader, async |mut reader: Reader| {
            let Some(piece) = reader.next().await? else {
                return Ok(None);
            };
            if let Some(taking) = &mut reader.taking {
                taking.take(piece.len()).await?;
            }
            Ok::<_, BodyError>(Some((piece, reader)))
        });
        // Outermost, where extractors look for what went wrong.
        Body::new(Limited::new(
            Body::from_stream(pieces),
            usize::try_from(max).unwrap_or(usize::MAX),
        ))
    }
}

/// What reads a body.
struct Reader {
    body: Body,
    pace: Option<Pace>,
    taking: Option<Taking>,
}

impl Reader {
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        let Self { body, pace, .. } = self;
        let piece = future::poll_fn(|context| {
            let polled = Pin::new(&mut *body).poll_frame(context);
            let Some(pace) = pace else {
                return polled.map(Ok);
            };
            let bytes = match &polled {
                Poll::Ready(Some(Ok(frame))) => Some(frame.data_ref().map_or(0, Bytes::len)),
                Poll::Ready(_) => Some(0),
                Poll::Pending => None,
            };
            if pace.is_kept(bytes, Instant::now()) {
                polled.map(Ok)
            } else {
                Poll::Ready(Err(BodyError::TooSlow))
            }
        });
        match piece.await? {
            Some(Ok(frame)) => Ok(Some(frame.into_data().unwrap_or_default())),
            Some(Err(error)) => Err(BodyError::of(&error)),
            None => Ok(None),
        }
    }
}

/// Room that bytes take as they come, until this is dropped.
pub(crate) struct Taking {
    app: App,
    owner: Owner,
    room: Room,
    patience: Duration,
    /// Units of the budget,
    taken: usize,
    /// and bytes that were read.
    used: usize,
}

impl Taking {
    /// How long a body waits for room in the budget.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

    pub(crate) fn new(app: App, owner: Owner) -> Self {
        Self {
            app,
            owner,
            room: Room(Arc::default()),
            patience: Self::PATIENCE,
            taken: 0,
            used: 0,
        }
    }

    /// Waits so long for room.
    pub(crate) fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Takes room for more bytes.
    pub(crate) async fn take(&mut self, bytes: usize) -> Result<(), BodyError> {
        if let Some(units) = self.wants(bytes) {
            let share = self.app.body_memory().take(self.owner.name(), units, self.patience).await;
            self.got(units, share.ok_or(BodyError::NoRoom)?);
        }
        Ok(())
    }

    /// Counts more bytes, and says how many units they want if there is no room for them yet.
    pub(super) fn wants(&mut self, bytes: usize) -> Option<u32> {
        self.used += bytes;
        let needed = self.used.div_ceil(UNIT);
        // A long body asks for more at a time.
        let units = needed.checked_sub(self.taken).filter(|units| *units > 0)? + self.taken / 8;
        Some(u32::try_from(units).unwrap_or(u32::MAX))
    }

    /// Takes what was wanted.
    pub(super) fn got(&mut self, units: u32, share: Share) {
        self.room.lock().push(share);
        self.taken += units as usize;
    }

    /// Bytes that were counted.
    pub(super) fn used(&self) -> usize {
        self.used
    }
}

impl Room {
    fn lock(&self) -> MutexGuard<'_, Vec<Share>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer, until the end of which room is held for its request.
struct Holding {
    body: Body,
    _room: Room,
}

impl HttpBody for Holding {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
