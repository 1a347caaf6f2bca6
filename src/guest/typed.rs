//! Typed values in both directions: what a run is given, asked for and brings back.

use std::sync::Arc;

use serde::Serialize;

use crate::api::policy::Plan;
use crate::limits::{MAX_TYPED_DEPTH, MAX_TYPED_HEAD, MAX_TYPED_ITEMS};
use crate::value::{Value, wire};

/// Bounds of a typed value, as the runner keeps them.
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

    /// That of a run's result, if it is to be typed.
    pub(super) fn of(plan: &Plan) -> Option<Self> {
        let capture = &plan.request.capture;
        capture.typed.then(|| Self::new(capture.typed_bytes.into()))
    }
}

/// What a run is given, and what typed value came back.
#[derive(Default)]
pub(super) struct Exchange {
    given: Option<Arc<[u8]>>,
    /// The most bytes of what comes back; `None` when nothing is to.
    max_bytes: Option<u64>,
}

/// What became of a frame with a typed value.
pub(super) enum Taken {
    /// It is one, and whether something was left out of it.
    Value(Value, bool),
    /// It is none, or one that is too large.
    Unreadable,
    /// Nobody asked for one.
    Foreign,
}

impl Exchange {
    pub(super) fn new(given: Option<Arc<[u8]>>, order: Option<TypedOrder>) -> Self {
        Self {
            given,
            max_bytes: order.map(|order| order.max_bytes),
        }
    }

    /// What the run is given, once.
    pub(super) fn give(&mut self) -> Option<Vec<u8>> {
        self.given.take().map(|given| given.to_vec())
    }

    /// Reads a frame: a byte that says whether something was left out, and the value, whose bytes
    /// may be in the guest's memory.
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
