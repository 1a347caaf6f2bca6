//! What is written of a session.

use std::sync::Arc;

use crate::image::Image;
use crate::session::context::Context;
use crate::session::options::FixedSettings;
use crate::session::past::Past;
use crate::session::pending::Pending;
use crate::session::times::Times;

/// A session as it is at one time, whatever becomes of it.
pub(in crate::session) struct Frozen {
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
    /// A session after run `execution`, which has used so much `fuel`.
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

    /// Has other times written.
    pub(in crate::session) fn set_times(&mut self, times: Times) {
        self.times = times;
    }

    /// With a run that waits for answers.
    pub(in crate::session) fn waiting(mut self, pending: Option<Pending>) -> Self {
        self.pending = pending;
        self
    }
}
