//! A body that is watched while it passes.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

/// Calls `see` with each piece of the body, and whether the body ends with it. An end that comes
/// without a piece has an empty one. `see` is dropped with the body.
pub(super) fn watched(body: Body, see: impl FnMut(&[u8], bool) + Send + Unpin + 'static) -> Body {
    Body::new(Watched { body, see })
}

struct Watched<F> {
    body: Body,
    see: F,
}

impl<F: FnMut(&[u8], bool) + Unpin> HttpBody for Watched<F> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                let piece = frame.data_ref().map_or(&[][..], |piece| piece);
                let is_end = self.body.is_end_stream();
                (self.see)(piece, is_end);
            }
            Poll::Ready(None) => (self.see)(&[], true),
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
