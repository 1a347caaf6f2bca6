//! Features that clients of older protocol revisions do not support.

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use rmcp::RoleServer;
use rmcp::model::ProtocolVersion;
use rmcp::service::RequestContext;
use tokio_stream::StreamExt;

/// The header with the client's protocol revision, since 2025-06-18.
const VERSION: &str = "mcp-protocol-version";

/// Whether the client supports resource links in tool results.
pub(super) fn has_links(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_none_or(|version| version.as_str() >= ProtocolVersion::V_2025_06_18.as_str())
}

/// Whether the client supports events without data, which allow resuming a stream.
pub(super) fn has_empty_events(headers: &HeaderMap) -> bool {
    let version = headers.get(VERSION).and_then(|version| version.to_str().ok());
    version.is_some_and(|version| version >= ProtocolVersion::V_2025_11_25.as_str())
}

/// Adapts a response for clients of all revisions: the end of a session always succeeds, and events
/// without data go only to clients that support them.
pub(super) fn fit(response: Response, method: &Method, has_empty_events: bool) -> Response {
    let (mut head, body) = response.into_parts();
    if *method == Method::DELETE && head.status == StatusCode::ACCEPTED {
        // Some clients do not accept 204 as success.
        head.status = StatusCode::OK;
        return Response::from_parts(head, Body::empty());
    }
    let kind = head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if has_empty_events || kind.is_none_or(|kind| !kind.starts_with(b"text/event-stream")) {
        return Response::from_parts(head, body);
    }
    let events = body.into_data_stream().filter(|event| !event.as_ref().is_ok_and(is_empty));
    Response::from_parts(head, Body::from_stream(events))
}

/// Whether a chunk of a stream is an event without data. Each event is one chunk.
fn is_empty(event: &Bytes) -> bool {
    let mut lines = event.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).peekable();
    let is_comment = lines.peek().is_none_or(|line| line.starts_with(b":"));
    !is_comment
        && lines.all(|line| {
            let data = line.strip_prefix(b"data:").unwrap_or_default();
            data.trim_ascii().is_empty()
        })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    async fn sent(has_empty_events: bool) -> Vec<u8> {
        let events = [&b"id: 0\nretry: 3000\ndata:\n\n"[..], b":\n\n", b"id: 1\ndata: {}\n\n"];
        let events = events.map(|event| Ok::<_, Infallible>(Bytes::from_static(event)));
        let response = Response::builder()
            .header(CONTENT_TYPE, "text/event-stream")
            .body(Body::from_stream(tokio_stream::iter(events)))
            .unwrap();
        let fit = fit(response, &Method::POST, has_empty_events);
        axum::body::to_bytes(fit.into_body(), 1 << 10).await.unwrap().to_vec()
    }

    #[tokio::test]
    async fn events_without_data_are_for_those_that_know_them() {
        assert_eq!(sent(false).await, b":\n\nid: 1\ndata: {}\n\n");
        assert_eq!(sent(true).await.len(), 25 + 3 + 16);
        for (version, knows) in [("2025-11-25", true), ("2026-07-28", true), ("2025-06-18", false)]
        {
            let headers =
                HeaderMap::from_iter([(VERSION.parse().unwrap(), version.parse().unwrap())]);
            assert_eq!(has_empty_events(&headers), knows, "{version}");
        }
        assert!(!has_empty_events(&HeaderMap::new()));
    }
}
