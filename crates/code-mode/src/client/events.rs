//! A size-limited stream of server events.

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::Either;
use futures_util::stream::BoxStream;
use http_body_util::BodyDataStream;
use hyper::body::Body;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::{Sse, SseStream};
use tokio::time::Instant;

use super::HttpError;
use crate::allowance::Allowance;

/// Minimum and maximum reconnect delay that a server can request, in milliseconds.
const MIN_RETRY: u64 = 100;
const MAX_RETRY: u64 = 10_000;

/// Returns the events of a body until a deadline. The stream ends with an error if an event is too
/// long or the server exceeds its allowance.
pub(crate) fn of<B>(
    body: B,
    allowance: Allowance,
    max_event: usize,
    deadline: Option<Instant>,
) -> BoxStream<'static, Result<Sse, SseError>>
where
    B: Body<Data = Bytes, Error = hyper::Error> + Send + 'static,
{
    let mut event = Event::default();
    let bytes = BodyDataStream::new(body).map(move |chunk| {
        let chunk = chunk.map_err(HttpError::Broken)?;
        allowance.spend_bytes(chunk.len());
        if allowance.is_spent() {
            return Err(HttpError::TooMuch);
        }
        event.grow(&chunk);
        if event.longest > max_event {
            Err(HttpError::TooLong)
        } else {
            Ok(chunk)
        }
    });
    let events = SseStream::from_bytes_stream(bytes).map(|event| {
        event.map(|mut event| {
            event.retry = event.retry.map(|pause| pause.clamp(MIN_RETRY, MAX_RETRY));
            event
        })
    });
    let end = match deadline {
        Some(deadline) => Either::Left(tokio::time::sleep_until(deadline)),
        None => Either::Right(std::future::pending()),
    };
    events.take_until(end).boxed()
}

/// Tracks the length of an event, which ends with an empty line.
#[derive(Default)]
struct Event {
    bytes: usize,
    longest: usize,
    line_is_empty: bool,
}

impl Event {
    fn grow(&mut self, chunk: &[u8]) {
        for byte in chunk {
            match byte {
                b'\n' | b'\r' if self.line_is_empty => self.bytes = 0,
                b'\n' => self.line_is_empty = true,
                b'\r' => {}
                _ => self.line_is_empty = false,
            }
            self.bytes += 1;
            self.longest = self.longest.max(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    async fn events(text: &str, max: usize) -> Vec<Result<Sse, SseError>> {
        let body =
            http_body_util::BodyExt::map_err(Full::new(Bytes::from(text.to_owned())), |never| {
                match never {}
            });
        of(body, Allowance::first(), max, None).collect().await
    }

    #[tokio::test]
    async fn an_event_that_is_too_long_ends_the_stream() {
        let fine = events("data: aaaa\n\ndata: bbbb\r\n\r\nretry: 9000000\ndata: c\n\n", 24).await;
        let fine: Vec<_> = fine.into_iter().map(Result::unwrap).collect();
        assert_eq!(fine.len(), 3);
        assert_eq!(fine[2].retry, Some(MAX_RETRY));
        assert!(events("data: aaaaaaaaaaaa\n\n", 16).await[0].is_err());
        assert!(events("data: aa\ndata: bb\n: c\n\n", 16).await[0].is_err());
    }

    #[tokio::test]
    async fn a_stream_ends_at_its_deadline() {
        let body = http_body_util::StreamBody::new(futures_util::stream::pending());
        let deadline = Instant::now() + std::time::Duration::from_millis(20);
        assert!(of(body, Allowance::first(), 16, Some(deadline)).next().await.is_none());
    }
}
