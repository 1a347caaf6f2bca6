//! The WebSocket of a kernel.

use std::time::Duration;

use axum::Extension;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, Query, State};
use axum::response::Response;
use belljar_kernel::websocket::{Form, Frame, V1};
use belljar_kernel::{ExecutionState, Peer, Room, unique};
use futures_util::stream::SplitSink;
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::auth::Authenticated;
use super::error::ApiError;
use super::hub::Hub;
use super::kernels::{Kernels, Running};
use crate::http::app::App;
use crate::http::connection::ConnectionState;
use crate::http::limits::UNIT;
use crate::http::websocket::{Incoming, going_away, ping, pings};
use crate::service::owner::Owner;

/// Maximum size of a client's message, in bytes.
const MAX_MESSAGE: usize = 64 << 20;
/// Interval of checks whether a kernel is idle when the server stops.
const LOOK: Duration = Duration::from_millis(20);
/// How long a client may take to close its side.
const CLOSING: Duration = Duration::from_secs(1);
/// Maximum length of a client's name for itself.
const MAX_NAME: usize = 256;

#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    session_id: Option<String>,
}

pub(super) async fn channels(
    Authenticated(owner): Authenticated,
    State(app): State<App>,
    Extension(kernels): Extension<Kernels>,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
    link: Option<Extension<ConnectionState>>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, ApiError> {
    let running = kernels.find(&owner, &id)?;
    let name = asked.session_id.filter(|name| !name.is_empty() && name.len() <= MAX_NAME);
    let peer = Peer::from(name.unwrap_or_else(unique));
    // Clients send each message in one frame.
    let upgrade = upgrade.max_message_size(MAX_MESSAGE).max_frame_size(MAX_MESSAGE).protocols([V1]);
    let form = if upgrade.selected_protocol().is_some() {
        Form::V1
    } else {
        Form::Json
    };
    let link = link.map(|Extension(link)| link);
    let from = (app, owner);
    Ok(upgrade.on_upgrade(move |socket| serve((socket, link), running, peer, form, from)))
}

/// Serves a connection until either side closes it. The kernel keeps running.
async fn serve(
    (socket, link): (WebSocket, Option<ConnectionState>),
    running: Running,
    peer: Peer,
    form: Form,
    (app, owner): (App, Owner),
) {
    running.keep();
    let joined = running.joined(&peer, owner.clone());
    let hub: &Hub = running.hub();
    let (connection, messages) = hub.join(peer.clone());
    let (to, from) = socket.split();
    let from = Incoming::new(from, link);
    let mut hearing = std::pin::pin!(hear(from, &running, &peer, form, (&app, &owner)));
    tokio::select! {
        () = tell(to, messages, &running, form, app.stopping().clone()) => {
            // The client may still send messages while closing.
            let _ = tokio::time::timeout(CLOSING, hearing).await;
        }
        () = &mut hearing => {}
    }
    drop(connection);
    running.keep();
    running.left(&peer, &joined);
}

/// Sends the kernel's messages and pings the client.
async fn tell(
    mut to: SplitSink<WebSocket, Message>,
    mut messages: mpsc::Receiver<std::sync::Arc<belljar_kernel::Outgoing>>,
    running: &Running,
    form: Form,
    stopping: CancellationToken,
) {
    let mut pings = pings();
    let mut over = std::pin::pin!(over(running, &stopping));
    loop {
        let message = tokio::select! {
            message = messages.recv() => match message {
                Some(message) => match form.write(&message) {
                    Frame::Text(text) => Message::Text(text.into()),
                    Frame::Binary(bytes) => Message::Binary(bytes),
                },
                None => break,
            },
            _ = pings.tick() => {
                running.keep();
                ping()
            }
            () = &mut over => {
                // The client may have disconnected.
                let _ = to.send(going_away()).await;
                break;
            }
        };
        if to.send(message).await.is_err() {
            return;
        }
    }
    // The client may have disconnected.
    let _ = to.close().await;
}

/// Waits until the server stops and the kernel is idle.
async fn over(running: &Running, stopping: &CancellationToken) {
    stopping.cancelled().await;
    while running.kernel().activity().state == ExecutionState::Busy {
        tokio::time::sleep(LOOK).await;
    }
}

/// Size of a message in bytes.
fn length(message: &Message) -> usize {
    match message {
        Message::Text(text) => text.len(),
        Message::Binary(bytes) => bytes.len(),
        Message::Ping(_) | Message::Pong(_) | Message::Close(_) => 0,
    }
}

/// Passes the client's messages to the kernel. Invalid messages are ignored, as in Jupyter's
/// server.
async fn hear(
    mut from: Incoming,
    running: &Running,
    peer: &Peer,
    form: Form,
    (app, owner): (&App, &Owner),
) {
    while let Some((message, room)) = from.next().await {
        let units = u32::try_from(length(&message).div_ceil(UNIT)).unwrap_or(u32::MAX);
        let frame = match message {
            Message::Text(text) => Frame::Text(text.as_str().to_owned()),
            Message::Binary(bytes) => Frame::Binary(bytes),
            Message::Close(_) => return,
            Message::Ping(_) | Message::Pong(_) => continue,
        };
        match form.read(&frame) {
            Ok((channel, message)) => {
                let room = || {
                    let place = app.waiting().try_acquire(owner.name(), units)?;
                    Some(std::sync::Arc::new((place, room)) as Room)
                };
                running.kernel().deliver(channel, peer.clone(), message, room).await;
            }
            Err(error) => tracing::debug!(%error, "ignoring an invalid message"),
        }
    }
}
