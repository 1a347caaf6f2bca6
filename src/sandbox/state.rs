//! Host data of one guest.

use std::sync::Arc;
use std::time::Duration;

use belljar_files::Files;
use wasmtime_wasi::p1::WasiP1Ctx;

use super::clock::{Resolution, RunningClock, SeededBytes, SteppingClock, today};
use super::control::Control;
use super::door::Host;
use super::fuel::Meter;
use super::memory_limiter::Limiter;
use super::missing_code::Held;
use super::recorder::Recorder;
use super::wasi;
use crate::sandbox::calls::Calls;

/// Host data of one guest.
pub(crate) struct State {
    pub(super) wasi: WasiP1Ctx,
    pub(super) limiter: Limiter,
    /// The guest's own files, and all its file descriptors.
    pub files: Files,
    /// Version of the files at the start of the run.
    pub(super) began: u64,
    pub(super) hosts: wasi::Hosts,
    /// Additional absolute paths of the workspace, longest first.
    pub(super) aliases: Vec<String>,
    pub host: Box<dyn Host>,
    pub(super) frames: u64,
    /// Address and length of guest memory prepared for the first answer.
    pub(super) answer: Option<(u32, u32)>,
    pub(super) control: Arc<Control>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) calls: Arc<Calls>,
    pub(super) meter: Meter,
    pub(super) held: Held,
    pub(super) clock: Option<SteppingClock>,
    pub(super) random: Option<SeededBytes>,
    /// What the guest was shown of host files, in a deterministic run.
    pub(super) shown: Option<wasi::Shown>,
    /// The monotonic clock, unless the run is deterministic.
    pub(super) running: RunningClock,
    /// Of both clocks, unless the run is deterministic.
    pub(super) resolution: Resolution,
}

impl State {
    /// Returns the time on the guest's clock.
    pub(super) fn now(&self, realtime: bool) -> Duration {
        match &self.clock {
            Some(clock) => clock.peek(realtime),
            None if realtime => self.resolution.round(today()),
            None => self.running.elapsed(),
        }
    }

    /// Whether the run changed files.
    pub(crate) fn touched(&self) -> bool {
        self.files.version() != self.began
    }

    /// Returns a future to await after an event, if a watcher is slow.
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

#[cfg(test)]
impl State {
    /// Creates the data of a guest without directories and streams.
    pub(super) fn bare() -> Self {
        use super::door::Answer;

        struct Silent;

        impl Host for Silent {
            fn answer(&mut self, _: &[u8], _: &[u8]) -> Answer {
                Answer::Bytes(Vec::new())
            }
        }

        Self {
            wasi: wasmtime_wasi::WasiCtxBuilder::new().build_p1(),
            limiter: Limiter::new(0, 1 << 30),
            files: super::Roots::without_library(std::env::temp_dir())
                .unwrap()
                .files(&[], None)
                .unwrap(),
            began: 0,
            hosts: wasi::Hosts::new(Vec::new()),
            aliases: Vec::new(),
            host: Box::new(Silent),
            frames: 0,
            answer: None,
            control: Control::new(),
            recorder: Arc::default(),
            calls: Arc::default(),
            meter: Meter::default(),
            held: Held {
                tier: belljar_passes::Tier::Core,
                open: false,
                left_out: Arc::default(),
                grows: false,
            },
            clock: None,
            random: None,
            shown: None,
            running: RunningClock::after(Duration::ZERO, Resolution::FULL),
            resolution: Resolution::FULL,
        }
    }
}
