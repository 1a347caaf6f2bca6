//! Request bodies, unavailable until the request is authenticated.
//!
//! The outermost layer takes the body from each request. A handler gets it back from [`open`],
//! which requires the authenticated [`Owner`]. Extractors that skip this see an empty body. Bodies
//! in memory share one budget of the process, of which each owner can use a part.

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

/// Unread bodies up to this size are discarded before an error response. An unread body would end
/// the connection, and a client that reuses it would fail on its next request.
const MAX_DISCARDED: u64 = 64 << 10;
/// Time limit for discarding.
const DISCARD_TIME: Duration = Duration::from_secs(1);

/// How a body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Into memory. Counts against the memory budget and the size limit.
    Whole,
    /// Into a file, up to this many bytes.
    File(u64),
    /// In chunks without a size limit. The reader reserves memory for what it keeps.
    Pieces,
}

/// An unread body, and the memory reserved for it.
#[derive(Clone)]
pub(crate) struct Sealed {
    app: App,
    body: Arc<Mutex<Option<Body>>>,
    room: Room,
}

/// Reserved memory, held until the request is answered.
#[derive(Clone)]
pub(crate) struct Room(Arc<Mutex<Vec<Share>>>);

/// Takes the body from a request.
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

/// Removes all extensions of a request except its body.
pub(crate) fn clear_others(extensions: &mut Extensions) {
    let sealed = extensions.remove::<Sealed>();
    extensions.clear();
    if let Some(sealed) = sealed {
        extensions.insert(sealed);
    }
}

/// Whether a request has a body, taken or not.
pub(crate) fn has_body(request: &Request) -> bool {
    request.extensions().get::<Sealed>().is_some() || !request.body().is_end_stream()
}

/// Wraps the body before it is read.
pub(crate) fn wrap(request: &Request, change: impl FnOnce(Body) -> Body) {
    if let Some(sealed) = request.extensions().get::<Sealed>() {
        let mut body = sealed.lock();
        *body = body.take().map(change);
    }
}

/// Returns a request with its body, which is charged to `owner`.
pub(crate) fn open(mut request: Request, owner: &Owner, reading: Reading) -> Request {
    let Some(sealed) = request.extensions_mut().remove::<Sealed>() else {
        return request;
    };
    let body = sealed.lock().take().unwrap_or_default();
    *request.body_mut() = sealed.metered(body, owner, reading);
    request
}

/// Reads a whole body into memory.
pub(crate) async fn whole(request: Request, owner: &Owner) -> Result<Bytes, BodyError> {
    let max = request.extensions().get::<Sealed>().map(|sealed| sealed.app.settings().body_bytes);
    let too_long = BodyError::TooLong(max.unwrap_or_default() as u64);
    // Reject an oversized body by its Content-Length before reading.
    if length(request.headers()).zip(max).is_some_and(|(length, max)| length > max as u64) {
        return Err(too_long);
    }
    let body = open(request, owner, Reading::Whole).into_body();
    axum::body::to_bytes(body, usize::MAX).await.map_err(|error| match BodyError::of(&error) {
        BodyError::TooLong(_) => too_long,
        other => other,
    })
}

/// The request's Content-Length.
pub(crate) fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl Sealed {
    fn lock(&self) -> MutexGuard<'_, Option<Body>> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A body that fails if it arrives too slowly, is too long or has no memory.
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
        // Outermost, because extractors look for this error.
        Body::new(Limited::new(
            Body::from_stream(pieces),
            usize::try_from(max).unwrap_or(usize::MAX),
        ))
    }
}

/// Reads a body.
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

/// A growing memory reservation, released on drop.
pub(crate) struct Taking {
    app: App,
    owner: Owner,
    room: Room,
    patience: Duration,
    /// Reserved units.
    taken: usize,
    /// Used bytes.
    used: usize,
}

impl Taking {
    /// How long a body waits for memory.
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

    /// Changes how long to wait.
    pub(crate) fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Reserves memory for more bytes.
    pub(crate) async fn take(&mut self, bytes: usize) -> Result<(), BodyError> {
        if let Some(units) = self.wants(bytes) {
            let share = self.app.body_memory().take(self.owner.name(), units, self.patience).await;
            self.got(units, share.ok_or(BodyError::NoRoom)?);
        }
        Ok(())
    }

    /// Counts more bytes, and returns the units to reserve for them, if any.
    pub(super) fn wants(&mut self, bytes: usize) -> Option<u32> {
        self.used += bytes;
        let needed = self.used.div_ceil(UNIT);
        // A long body reserves more at a time.
        let units = needed.checked_sub(self.taken).filter(|units| *units > 0)? + self.taken / 8;
        Some(u32::try_from(units).unwrap_or(u32::MAX))
    }

    /// Adds a reservation.
    pub(super) fn got(&mut self, units: u32, share: Share) {
        self.room.lock().push(share);
        self.taken += units as usize;
    }

    /// The counted bytes.
    pub(super) fn used(&self) -> usize {
        self.used
    }
}

impl Room {
    fn lock(&self) -> MutexGuard<'_, Vec<Share>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A response that holds its request's memory until it ends.
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
