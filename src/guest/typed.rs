//! Typed values in both directions: a run's variables and its typed result.

use std::sync::Arc;

use belljar_value::{Value, wire};
use serde::Serialize;

use crate::api::policy::Plan;
use crate::limits::{MAX_TYPED_DEPTH, MAX_TYPED_HEAD, MAX_TYPED_ITEMS};

/// Limits of a typed value, for the runner.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct TypedOrder {
    max_depth: u32,
    max_items: usize,
    max_head: usize,
    max_bytes: u64,
}

impl TypedOrder {
    pub(super) fn new(max_bytes: u64) -> Self {
        Self {
            max_depth: MAX_TYPED_DEPTH,
            max_items: MAX_TYPED_ITEMS,
            max_head: MAX_TYPED_HEAD,
            max_bytes,
        }
    }

    /// Returns the limits of a run's result, if it should be typed.
    pub(super) fn of(plan: &Plan) -> Option<Self> {
        let capture = &plan.request.capture;
        capture.typed.then(|| Self::new(capture.typed_bytes.into()))
    }
}

/// A run's variables, and the limit on its typed result.
#[derive(Default)]
pub(super) struct Exchange {
    given: Option<Arc<[u8]>>,
    /// Maximum size of the typed result in bytes; `None` if the run has no typed result.
    max_bytes: Option<u64>,
}

/// Result of reading a frame with a typed value.
pub(super) enum Taken {
    /// A valid value, and whether parts of it were omitted.
    Value(Value, bool),
    /// The value is invalid or too large.
    Unreadable,
    /// No typed value was requested.
    Foreign,
}

impl Exchange {
    pub(super) fn new(given: Option<Arc<[u8]>>, order: Option<TypedOrder>) -> Self {
        Self {
            given,
            max_bytes: order.map(|order| order.max_bytes),
        }
    }

    /// Returns the run's variables, once.
    pub(super) fn give(&mut self) -> Option<Vec<u8>> {
        self.given.take().map(|given| given.to_vec())
    }

    /// Reads a frame: a byte that says whether parts were omitted, and the value, whose bytes may
    /// be in the guest's memory.
    pub(super) fn take(&self, payload: &[u8], memory: &[u8]) -> Taken {
        let Some(max_bytes) = self.max_bytes else {
            return Taken::Foreign;
        };
        let Some((cut @ (0 | 1), payload)) = payload.split_first() else {
            return Taken::Unreadable;
        };
        match wire::read(payload, memory, max_bytes) {
            Ok(value) => Taken::Value(value, *cut == 1),
            Err(error) => {
                tracing::debug!(%error, "a typed value of a guest is refused");
                Taken::Unreadable
            }
        }
    }
}
