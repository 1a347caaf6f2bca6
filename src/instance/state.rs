//! Host's data of one guest.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use wasmtime_wasi::p1::WasiP1Ctx;

use super::clock::{RunningClock, SeededBytes, SteppingClock};
use super::control::Control;
use super::door::Host;
use super::limiter::Limiter;
use super::meter::Meter;
use super::missing::Held;
use super::quota::Quota;
use super::recorder::Recorder;
use super::roots::MountPoint;
use super::wasi;
use crate::tools::Calls;

/// Host's data of one guest.
pub(crate) struct State {
    pub(super) wasi: WasiP1Ctx,
    pub(super) limiter: Limiter,
    pub quota: Quota,
    pub(super) mounts: Vec<MountPoint>,
    pub host: Box<dyn Host>,
    pub(super) frames: u64,
    /// Guest memory that stands ready for the first answer, and its length.
    pub(super) answer: Option<(u32, u32)>,
    pub(super) control: Arc<Control>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) calls: Arc<Calls>,
    pub(super) meter: Meter,
    pub(super) held: Held,
    pub(super) clock: Option<SteppingClock>,
    pub(super) random: Option<SeededBytes>,
    /// Which descriptors are devices.
    pub(super) devices: HashMap<i32, wasi::Device>,
    /// Inode numbers and times of files as the guest sees them, where they must be repeatable.
    pub(super) files: Option<wasi::Files>,
    /// The monotonic clock, unless it must be repeatable.
    pub(super) running: RunningClock,
}

impl State {
    /// Time on the guest's clock.
    pub(super) fn now(&self, realtime: bool) -> Duration {
        match &self.clock {
            Some(clock) => clock.peek(realtime),
            None if realtime => std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap_or_default(),
            None => self.running.elapsed(),
        }
    }

    /// After something happened: the wait for whoever hears of it, where there is somebody.
    pub(super) fn watched(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let watcher = self.recorder.watcher()?;
        let control = Arc::clone(&self.control);
        Some(async move {
            if let Some(room) = watcher.room() {
                control.wait(room).await;
            }
        })
    }
}
