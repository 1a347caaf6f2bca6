//! Small bodies are read before anything is answered: when an answer comes while some of its request is
//! unread, the connection ends, and a client that sends the next request on it finds it gone.

use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::Request;
use axum::http::header::CONTENT_LENGTH;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::Problem;

/// A body that says it is no longer is small.
const MAX_SMALL: usize = 64 << 10;

/// Reads a small body.
pub(crate) async fn read(request: Request, next: Next) -> Response {
    let length =
        request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if request.body().is_end_stream() || length.is_none_or(|length: usize| length > MAX_SMALL) {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    match to_bytes(body, MAX_SMALL).await {
        Ok(bytes) => next.run(Request::from_parts(head, Body::from(bytes))).await,
        Err(_) => Problem::new(
            axum::http::StatusCode::BAD_REQUEST,
            "bad_body",
            "the body ended before its end, or took too long",
        )
        .into_response(),
    }
}
