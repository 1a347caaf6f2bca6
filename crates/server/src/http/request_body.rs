//! Request bodies, unavailable until the request is authenticated.
//!
//! The outermost layer takes the body from each request. A handler gets it back from [`open`],
//! which requires the authenticated [`Owner`]. Extractors that skip this see an empty body. Bodies
//! in memory share one budget of the process, of which each owner can use a part.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, EXPECT};
use axum::http::{Extensions, HeaderMap};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::{StreamExt, future, stream};
use http_body_util::Limited;
use hyper::body::{Frame, SizeHint};
use tokio::sync::Semaphore;

use super::app::App;
use super::body_error::BodyError;
use super::data_rate::DataRate;
use super::limiter::Permit;
use super::limits::UNIT;
use crate::lock::lock;
use crate::service::owner::Owner;

/// Unread bodies up to this size are discarded before a response. An unread body would end the
/// connection: a client that still writes it would fail before it reads the response, and a client
/// that reuses the connection on its next request.
const MAX_DISCARDED: u64 = 64 << 10;
/// Time limit for discarding.
const DISCARD_TIME: Duration = Duration::from_secs(1);
/// The same after a failure of the server's: then all of a body of known length, so that the client
/// reads why.
const FAILED_DISCARD_TIME: Duration = Duration::from_secs(10);
/// So many at once; the rest are treated like other bodies.
static FAILED_DISCARDS: Semaphore = Semaphore::const_new(64);

/// How a body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// Into memory. Counts against the memory budget and the size limit.
    Memory,
    /// Into a file, up to this many bytes.
    File(u64),
    /// In chunks without a size limit. The reader reserves memory for what it keeps.
    Stream,
}

/// An unread body, and the memory reserved for it.
#[derive(Clone)]
pub(crate) struct PendingBody {
    app: App,
    body: Arc<Mutex<Option<Body>>>,
    reserved: Reserved,
}

/// Reserved memory, held until the request is answered.
#[derive(Clone)]
pub(crate) struct Reserved(Arc<Mutex<Vec<Permit>>>);

/// Takes the body from a request.
pub(crate) async fn detach(State(app): State<App>, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let length = content_length(&parts.headers);
    let expects = parts.headers.contains_key(EXPECT);
    let max_body = app.settings().body_bytes as u64;
    let pending = PendingBody {
        app,
        body: Arc::new(Mutex::new(Some(body))),
        reserved: Reserved(Arc::default()),
    };
    parts.extensions.insert(pending.clone());
    let response = next.run(Request::from_parts(parts, Body::empty())).await;
    let unread = pending.lock().take();
    // A client that waits for `100 Continue` has not sent a long body, nor one of unknown length.
    let is_long = response.status().is_server_error() && length.is_some() && !expects;
    let long = is_long.then(|| FAILED_DISCARDS.try_acquire().ok()).flatten();
    let (max, time) = if long.is_some() {
        (MAX_DISCARDED.max(max_body), FAILED_DISCARD_TIME)
    } else {
        (MAX_DISCARDED, DISCARD_TIME)
    };
    let is_small = length.map_or(!expects, |length| length <= max);
    if let (Some(body), true) = (unread, is_small) {
        let rest = Limited::new(body, usize::try_from(max).unwrap_or(usize::MAX));
        let _ = tokio::time::timeout(time, discard(Body::new(rest))).await;
    }
    if pending.reserved.lock().is_empty() {
        return response;
    }
    response.map(|body| {
        Body::new(Holding {
            body,
            _reserved: pending.reserved,
        })
    })
}

async fn discard(body: Body) {
    let rest = body.into_data_stream().take_while(|piece| future::ready(piece.is_ok()));
    rest.for_each(|_| future::ready(())).await;
}

/// Removes all extensions of a request except its body.
pub(crate) fn clear_other_extensions(extensions: &mut Extensions) {
    let pending = extensions.remove::<PendingBody>();
    extensions.clear();
    if let Some(pending) = pending {
        extensions.insert(pending);
    }
}

/// Whether a request has a body, taken or not.
pub(crate) fn has_body(request: &Request) -> bool {
    request.extensions().get::<PendingBody>().is_some() || !request.body().is_end_stream()
}

/// Wraps the body before it is read.
pub(crate) fn wrap(request: &Request, change: impl FnOnce(Body) -> Body) {
    if let Some(pending) = request.extensions().get::<PendingBody>() {
        let mut body = pending.lock();
        *body = body.take().map(change);
    }
}

/// Returns a request with its body, which is charged to `owner`.
pub(crate) fn open(mut request: Request, owner: &Owner, mode: ReadMode) -> Request {
    let Some(pending) = request.extensions_mut().remove::<PendingBody>() else {
        return request;
    };
    let body = pending.lock().take().map(|body| {
        Body::new(Returning {
            body: Some(body),
            pending: Arc::clone(&pending.body),
        })
    });
    *request.body_mut() = pending.metered(body.unwrap_or_default(), owner, mode);
    request
}

/// Reads a whole body into memory.
pub(crate) async fn read(request: Request, owner: &Owner) -> Result<Bytes, BodyError> {
    let max =
        request.extensions().get::<PendingBody>().map(|pending| pending.app.settings().body_bytes);
    let too_long = BodyError::TooLong(max.unwrap_or_default() as u64);
    // Reject an oversized body by its Content-Length before reading.
    if content_length(request.headers())
        .zip(max)
        .is_some_and(|(content_length, max)| content_length > max as u64)
    {
        return Err(too_long);
    }
    let body = open(request, owner, ReadMode::Memory).into_body();
    axum::body::to_bytes(body, usize::MAX).await.map_err(|error| match BodyError::of(&error) {
        BodyError::TooLong(_) => too_long,
        other => other,
    })
}

/// The request's Content-Length.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl PendingBody {
    fn lock(&self) -> MutexGuard<'_, Option<Body>> {
        lock(&self.body)
    }

    /// A body that fails if it arrives too slowly, is too long or has no memory.
    fn metered(&self, body: Body, owner: &Owner, mode: ReadMode) -> Body {
        let (max, rate) = match mode {
            ReadMode::Memory => (self.app.settings().body_bytes as u64, true),
            ReadMode::File(max) => (max, true),
            ReadMode::Stream => return body,
        };
        let reader = Reader {
            body,
            rate: rate.then(DataRate::default),
            reservation: (mode == ReadMode::Memory).then(|| Reservation {
                reserved: self.reserved.clone(),
                ..Reservation::new(self.app.clone(), owner.clone())
            }),
        };
        let pieces = stream::try_unfold(reader, async |mut reader: Reader| {
            let Some(piece) = reader.next().await? else {
                return Ok(None);
            };
            if let Some(reservation) = &mut reader.reservation {
                reservation.take(piece.len()).await?;
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

/// A body that is pending again, and so discarded, when it is dropped before its end.
struct Returning {
    body: Option<Body>,
    pending: Arc<Mutex<Option<Body>>>,
}

impl HttpBody for Returning {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(body).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(HttpBody::size_hint).unwrap_or_default()
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        *lock(&self.pending) = self.body.take().filter(|body| !body.is_end_stream());
    }
}

/// Reads a body.
struct Reader {
    body: Body,
    rate: Option<DataRate>,
    reservation: Option<Reservation>,
}

impl Reader {
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        let Self { body, rate, .. } = self;
        let piece = future::poll_fn(|context| {
            let polled = Pin::new(&mut *body).poll_frame(context);
            let Some(rate) = rate else {
                return polled.map(Ok);
            };
            let bytes = match &polled {
                Poll::Ready(Some(Ok(frame))) => Some(frame.data_ref().map_or(0, Bytes::len)),
                Poll::Ready(_) => Some(0),
                Poll::Pending => None,
            };
            if rate.is_sufficient(bytes, Instant::now()) {
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
pub(crate) struct Reservation {
    app: App,
    owner: Owner,
    reserved: Reserved,
    patience: Duration,
    /// Reserved units.
    reserved_units: usize,
    /// Used bytes.
    used_bytes: usize,
}

impl Reservation {
    /// How long a body waits for memory.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

    pub(crate) fn new(app: App, owner: Owner) -> Self {
        Self {
            app,
            owner,
            reserved: Reserved(Arc::default()),
            patience: Self::PATIENCE,
            reserved_units: 0,
            used_bytes: 0,
        }
    }

    /// Changes how long to wait.
    pub(crate) fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Reserves memory for more bytes.
    pub(crate) async fn take(&mut self, bytes: usize) -> Result<(), BodyError> {
        if let Some(units) = self.needed_units(bytes) {
            let permit =
                self.app.body_memory().acquire(self.owner.name(), units, self.patience).await;
            self.add(units, permit.ok_or(BodyError::NoRoom)?);
        }
        Ok(())
    }

    /// Counts more bytes, and returns the units to reserve for them, if any.
    pub(super) fn needed_units(&mut self, bytes: usize) -> Option<u32> {
        self.used_bytes += bytes;
        let needed = self.used_bytes.div_ceil(UNIT);
        // A long body reserves more at a time.
        let units = needed.checked_sub(self.reserved_units).filter(|units| *units > 0)?
            + self.reserved_units / 8;
        Some(u32::try_from(units).unwrap_or(u32::MAX))
    }

    /// Adds a reservation.
    pub(super) fn add(&mut self, units: u32, permit: Permit) {
        self.reserved.lock().push(permit);
        self.reserved_units += units as usize;
    }

    /// The counted bytes.
    pub(super) fn used_bytes(&self) -> usize {
        self.used_bytes
    }
}

impl Reserved {
    fn lock(&self) -> MutexGuard<'_, Vec<Permit>> {
        lock(&self.0)
    }
}

/// A response that holds its request's memory until it ends.
struct Holding {
    body: Body,
    _reserved: Reserved,
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
