//! Bytes received on a WebSocket for an incomplete message. They use body memory as they arrive and
//! must arrive at a minimum rate. The complete message takes over their memory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::extract::ws::Message;

use super::app::App;
use super::pace::Pace;
use super::sealed::Taking;
use super::shares::Share;
use super::unread::BodyError;
use crate::service::owner::Owner;

/// Maximum bytes per read. Bytes read beyond the end of a message are not counted.
pub(super) const MAX_READ: usize = 16 << 10;
/// The first bytes of each message are not counted, so that interrupts get through when body memory
/// is full.
const UNCOUNTED: usize = 4 << 10;
/// Size of a message from which the minimum rate applies.
const PACED_FROM: usize = 64 << 10;
/// Size of a client's frame header for a short payload.
const FRAME_HEAD: usize = 6;

/// The bytes received since the last complete message.
pub(crate) struct Inflow {
    app: App,
    owner: Owner,
    taking: Taking,
    bytes: usize,
    pace: Pace,
    /// A pending reservation: its units, and its future.
    waiting: Option<(u32, Wait)>,
}

type Wait = Pin<Box<dyn Future<Output = Option<Share>> + Send>>;

impl Inflow {
    pub(crate) fn new(app: &App, owner: &Owner) -> Self {
        Self {
            app: app.clone(),
            owner: owner.clone(),
            taking: Taking::new(app.clone(), owner.clone()),
            bytes: 0,
            pace: Pace::default(),
            waiting: None,
        }
    }

    /// Ready when the received bytes have memory.
    pub(super) fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some((units, wait)) = &mut self.waiting else {
            return Poll::Ready(Ok(()));
        };
        let share = std::task::ready!(wait.as_mut().poll(context));
        let units = *units;
        self.waiting = None;
        Poll::Ready(match share {
            Some(share) => {
                self.taking.got(units, share);
                Ok(())
            }
            None => Err(io::Error::new(io::ErrorKind::OutOfMemory, BodyError::NoRoom)),
        })
    }

    /// Counts a read: its bytes, or `None` while it is pending.
    pub(super) fn came(&mut self, bytes: Option<usize>, now: Instant) -> io::Result<()> {
        if let Some(bytes) = bytes {
            self.bytes += bytes;
            self.take();
        }
        if self.bytes < PACED_FROM {
            self.pace = Pace::default();
        } else if !self.pace.is_kept(bytes, now) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, BodyError::TooSlow));
        }
        Ok(())
    }

    fn take(&mut self) {
        let counted = self.bytes.saturating_sub(UNCOUNTED);
        let Some(units) = self.taking.wants(counted.saturating_sub(self.taking.used())) else {
            return;
        };
        if let Some(share) = self.app.body_memory().try_take(self.owner.name(), units) {
            return self.taking.got(units, share);
        }
        let (app, owner) = (self.app.clone(), self.owner.clone());
        let wait =
            async move { app.body_memory().take(owner.name(), units, Taking::PATIENCE).await };
        self.waiting = Some((units, Box::pin(wait)));
    }

    /// Bytes of a message that is subject to the minimum rate; 0 for shorter messages.
    pub(super) fn paced(&self) -> usize {
        if self.bytes < PACED_FROM {
            0
        } else {
            self.bytes
        }
    }

    /// Takes the memory of a complete message. Pings and pongs may arrive inside one.
    pub(super) fn becomes(&mut self, message: &Message) -> Taking {
        let empty = Taking::new(self.app.clone(), self.owner.clone());
        match message {
            Message::Ping(bytes) | Message::Pong(bytes) => {
                self.bytes = self.bytes.saturating_sub(FRAME_HEAD + bytes.len());
                empty
            }
            Message::Text(_) | Message::Binary(_) | Message::Close(_) => {
                self.bytes = 0;
                self.waiting = None;
                std::mem::replace(&mut self.taking, empty)
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

    fn inflow() -> Inflow {
        let service = Service::new(Runtime::builder().environment().build().unwrap());
        let app = App::new(service, Keys::none(), Settings::default());
        Inflow::new(&app, &Owner::local())
    }

    /// Receives `bytes` every second for five minutes.
    fn comes(inflow: &mut Inflow, bytes: usize) -> io::Result<()> {
        let mut now = Instant::now();
        for _ in 0..300 {
            inflow.came(None, now)?;
            now += Duration::from_secs(1);
            inflow.came(Some(bytes), now)?;
        }
        Ok(())
    }

    #[test]
    fn a_long_message_has_a_least_pace() {
        let mut slow = inflow();
        slow.came(Some(PACED_FROM), Instant::now()).unwrap();
        assert_eq!(comes(&mut slow, 100).unwrap_err().kind(), io::ErrorKind::TimedOut);
        comes(&mut inflow(), 2 << 10).unwrap();
        // Without a message in progress, no rate applies.
        comes(&mut inflow(), 0).unwrap();
    }

    #[test]
    fn a_ping_in_the_middle_of_a_message_takes_nothing_of_its_room() {
        let mut inflow = inflow();
        inflow.came(Some(100 << 10), Instant::now()).unwrap();
        inflow.came(Some(FRAME_HEAD), Instant::now()).unwrap();
        let none = inflow.becomes(&Message::Ping(Bytes::new()));
        assert_eq!((none.used(), inflow.paced()), (0, 100 << 10));
        let room = inflow.becomes(&Message::Text("whole".into()));
        assert_eq!((room.used(), inflow.paced()), ((96 << 10) + FRAME_HEAD, 0));
    }
}
