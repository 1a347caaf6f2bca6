//! The limit on a guest's memory.

use wasmtime::ResourceLimiter;

/// Limits the guest's memory and records its requests.
#[derive(Debug)]
pub(super) struct Limiter {
    pub(super) image: usize,
    pub(super) max: usize,
    pub(super) peak: u64,
    pub(super) refused: bool,
    /// Whether the limit applies. Growing to the image's size is exempt.
    pub(super) armed: bool,
}

impl Limiter {
    pub(super) fn new(image: usize, above: u64) -> Self {
        Self {
            image,
            max: image.saturating_add(usize::try_from(above).unwrap_or(usize::MAX)),
            peak: 0,
            refused: false,
            armed: false,
        }
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if !self.armed {
            return Ok(true);
        }
        if current < self.image {
            // This is the heap of exceptions, since the linear memory is never smaller than its
            // image.
            return Ok(desired <= MAX_EXCEPTIONS);
        }
        if desired > self.max {
            self.refused = true;
            return Ok(false);
        }
        self.peak = self.peak.max((desired - self.image) as u64);
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(!self.armed || desired <= current)
    }
}
use crate::limits::MAX_EXCEPTIONS;
