//! Common parts of all WebSockets: pings, timeouts and bounded reading.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use tokio::time::{Interval, MissedTickBehavior, interval_at};

use super::connection::ConnectionState;
use super::request_body::Reservation;

/// Interval of pings.
const PING: Duration = Duration::from_secs(30);
/// How long a client may be silent. Clients answer each ping.
const SILENCE: Duration = Duration::from_secs(90);

/// A timer for pings.
pub(crate) fn pings() -> Interval {
    let mut pings = interval_at(tokio::time::Instant::now() + PING, PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings
}

/// A ping.
pub(crate) fn ping() -> Message {
    Message::Ping(Bytes::new())
}

/// A close message for the server's shutdown.
pub(crate) fn going_away() -> Message {
    Message::Close(Some(CloseFrame {
        code: close_code::AWAY,
        reason: "the server is shutting down".into(),
    }))
}

/// Messages of a client.
pub(crate) struct Incoming {
    from: SplitStream<WebSocket>,
    /// Its connection.
    connection: Option<ConnectionState>,
}

impl Incoming {
    pub(crate) fn new(from: SplitStream<WebSocket>, connection: Option<ConnectionState>) -> Self {
        Self { from, connection }
    }

    /// The next message and the memory that it holds; `None` if the client has disconnected.
    pub(crate) async fn next(&mut self) -> Option<(Message, Option<Reservation>)> {
        loop {
            let received = self.rated_bytes();
            match tokio::time::timeout(SILENCE, self.from.next()).await {
                Ok(message) => {
                    let message = message?.ok()?;
                    let input = self.connection.as_ref().and_then(ConnectionState::input);
                    let room = input.map(|mut input| input.finish(&message));
                    return Some((message, room));
                }
                // A long message is still arriving.
                Err(_) if self.rated_bytes() > received => {}
                Err(_) => return None,
            }
        }
    }

    fn rated_bytes(&self) -> usize {
        self.connection
            .as_ref()
            .and_then(ConnectionState::input)
            .map_or(0, |input| input.rated_bytes())
    }
}
