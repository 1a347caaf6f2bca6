//! The clock and the random numbers that calls need.

/// Time and randomness, passed to each call that may need them. A state has neither, so the same
/// calls give the same results.
pub trait World {
    /// Nanoseconds since 1970. Called only to set a timestamp.
    fn now(&mut self) -> u64;

    /// Fills a buffer with random bytes. Returns whether random bytes are available.
    fn random(&mut self, into: &mut [u8]) -> bool;
}
