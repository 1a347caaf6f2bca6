//! Bytes received on a WebSocket for an incomplete message. They use body memory as they arrive and
//! must arrive at a minimum rate. The complete message takes over their memory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::extract::ws::Message;

use super::app::App;
use super::body_error::BodyError;
use super::data_rate::DataRate;
use super::limiter::Permit;
use super::request_body::Reservation;
use crate::service::owner::Owner;

/// Maximum bytes per read. Bytes read beyond the end of a message are not counted.
pub(super) const MAX_READ: usize = 16 << 10;
/// The first bytes of each message are not counted, so that interrupts get through when body memory
/// is full.
const UNCOUNTED: usize = 4 << 10;
/// Size of a message from which the minimum rate applies.
const RATED_FROM: usize = 64 << 10;
/// Size of a client's frame header for a short payload.
const FRAME_HEAD: usize = 6;

/// The bytes received since the last complete message.
pub(crate) struct WebSocketInput {
    app: App,
    owner: Owner,
    reservation: Reservation,
    bytes: usize,
    rate: DataRate,
    /// A pending reservation: its units, and its future.
    waiting: Option<(u32, Wait)>,
}

type Wait = Pin<Box<dyn Future<Output = Option<Permit>> + Send>>;

impl WebSocketInput {
    pub(crate) fn new(app: &App, owner: &Owner) -> Self {
        Self {
            app: app.clone(),
            owner: owner.clone(),
            reservation: Reservation::new(app.clone(), owner.clone()),
            bytes: 0,
            rate: DataRate::default(),
            waiting: None,
        }
    }

    /// Ready when the received bytes have memory.
    pub(super) fn poll_memory(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some((units, wait)) = &mut self.waiting else {
            return Poll::Ready(Ok(()));
        };
        let permit = std::task::ready!(wait.as_mut().poll(context));
        let units = *units;
        self.waiting = None;
        Poll::Ready(match permit {
            Some(permit) => {
                self.reservation.add(units, permit);
                Ok(())
            }
            None => Err(io::Error::new(io::ErrorKind::OutOfMemory, BodyError::NoRoom)),
        })
    }

    /// Counts a read: its bytes, or `None` while it is pending.
    pub(super) fn received(&mut self, bytes: Option<usize>, now: Instant) -> io::Result<()> {
        if let Some(bytes) = bytes {
            self.bytes += bytes;
            self.take();
        }
        if self.bytes < RATED_FROM {
            self.rate = DataRate::default();
        } else if !self.rate.is_sufficient(bytes, now) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, BodyError::TooSlow));
        }
        Ok(())
    }

    fn take(&mut self) {
        let counted = self.bytes.saturating_sub(UNCOUNTED);
        let Some(units) =
            self.reservation.needed_units(counted.saturating_sub(self.reservation.used_bytes()))
        else {
            return;
        };
        if let Some(permit) = self.app.body_memory().try_acquire(self.owner.name(), units) {
            return self.reservation.add(units, permit);
        }
        let (app, owner) = (self.app.clone(), self.owner.clone());
        let wait = async move {
            app.body_memory().acquire(owner.name(), units, Reservation::PATIENCE).await
        };
        self.waiting = Some((units, Box::pin(wait)));
    }

    /// Bytes of a message that is subject to the minimum rate; 0 for shorter messages.
    pub(super) fn rated_bytes(&self) -> usize {
        if self.bytes < RATED_FROM {
            0
        } else {
            self.bytes
        }
    }

    /// Takes the memory of a complete message. Pings and pongs may arrive inside one.
    pub(super) fn finish(&mut self, message: &Message) -> Reservation {
        let empty = Reservation::new(self.app.clone(), self.owner.clone());
        match message {
            Message::Ping(bytes) | Message::Pong(bytes) => {
                self.bytes = self.bytes.saturating_sub(FRAME_HEAD + bytes.len());
                empty
            }
            Message::Text(_) | Message::Binary(_) | Message::Close(_) => {
                self.bytes = 0;
                self.waiting = None;
                std::mem::replace(&mut self.reservation, empty)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Bytes;
    use belljar::Runtime;

    use super::*;
    use crate::http::app::Settings;
    use crate::http::auth::Keys;
    use crate::service::Service;

    fn input() -> WebSocketInput {
        let service = Service::new(Runtime::builder().environment().build().unwrap());
        let app = App::new(service, Keys::none(), Settings::default());
        WebSocketInput::new(&app, &Owner::local())
    }

    /// Receives `bytes` every second for five minutes.
    fn comes(input: &mut WebSocketInput, bytes: usize) -> io::Result<()> {
        let mut now = Instant::now();
        for _ in 0..300 {
            input.received(None, now)?;
            now += Duration::from_secs(1);
            input.received(Some(bytes), now)?;
        }
        Ok(())
    }

    #[test]
    fn a_long_message_has_a_least_pace() {
        let mut slow = input();
        slow.received(Some(RATED_FROM), Instant::now()).unwrap();
        assert_eq!(comes(&mut slow, 100).unwrap_err().kind(), io::ErrorKind::TimedOut);
        comes(&mut input(), 2 << 10).unwrap();
        // Without a message in progress, no rate applies.
        comes(&mut input(), 0).unwrap();
    }

    #[test]
    fn a_ping_in_the_middle_of_a_message_takes_nothing_of_its_room() {
        let mut input = input();
        input.received(Some(100 << 10), Instant::now()).unwrap();
        input.received(Some(FRAME_HEAD), Instant::now()).unwrap();
        let none = input.finish(&Message::Ping(Bytes::new()));
        assert_eq!((none.used_bytes(), input.rated_bytes()), (0, 100 << 10));
        let room = input.finish(&Message::Text("whole".into()));
        assert_eq!((room.used_bytes(), input.rated_bytes()), ((96 << 10) + FRAME_HEAD, 0));
    }
}
