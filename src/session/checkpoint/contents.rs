//! A frozen copy of a session, for writing.

use std::sync::Arc;

use crate::artifact::image::Image;
use crate::session::clock::Times;
use crate::session::context::Context;
use crate::session::options::FixedSettings;
use crate::session::pending::Pending;
use crate::session::timeline::Past;

/// A session at one point in time, independent of later changes.
pub(crate) struct Frozen {
    pub(super) image: Arc<Image>,
    pub(super) fixed: FixedSettings,
    pub(super) past: Past,
    pub(super) execution: u64,
    pub(super) fuel: u64,
    pub(super) times: Times,
    /// The run that waits for answers.
    pub(super) pending: Option<Pending>,
}

impl Frozen {
    /// Freezes a session after run `execution`, which has used `fuel`.
    pub(in crate::session) fn of(context: &Context, past: Past, execution: u64, fuel: u64) -> Self {
        Self {
            image: Arc::clone(&context.image),
            fixed: context.fixed.clone(),
            past,
            execution,
            fuel,
            times: context.clock.times(),
            pending: None,
        }
    }

    /// Replaces the times to be written.
    pub(crate) fn set_times(&mut self, times: Times) {
        self.times = times;
    }

    /// Adds a run that waits for answers.
    pub(in crate::session) fn waiting(mut self, pending: Option<Pending>) -> Self {
        self.pending = pending;
        self
    }
}
