//! What all WebSockets do: ask whether the client is there, and end when it is not.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use tokio::time::{Interval, MissedTickBehavior, interval_at};

/// How often a client is asked whether it is there.
const PING: Duration = Duration::from_secs(30);
/// How long a client may be silent, which answers each ping.
const SILENCE: Duration = Duration::from_secs(90);

/// When to ask.
pub(crate) fn pings() -> Interval {
    let mut pings = interval_at(tokio::time::Instant::now() + PING, PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings
}

/// Asks whether the client is there.
pub(crate) fn ping() -> Message {
    Message::Ping(Bytes::new())
}

/// Says that the server goes away.
pub(crate) fn going_away() -> Message {
    Message::Close(Some(CloseFrame {
        code: close_code::AWAY,
        reason: "the server stops".into(),
    }))
}

/// The next message of a client that is there.
pub(crate) async fn next(from: &mut SplitStream<WebSocket>) -> Option<Message> {
    tokio::time::timeout(SILENCE, from.next()).await.ok()??.ok()
}
