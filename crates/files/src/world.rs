//! The clock and the random numbers that calls need.

/// Time and chance, given to each call that may need them: a state has neither of its own, so that one
/// which is run again does the same again.
pub trait World {
    /// Nanoseconds since 1970. Asked only when a time moves.
    fn now(&mut self) -> u64;

    /// Fills a buffer with random bytes, and tells whether there were any.
    fn random(&mut self, into: &mut [u8]) -> bool;
}
