//! The relay without its memory orderings: its model must fail.

mod sync {
    pub(crate) use loom::sync::Mutex;
    pub(crate) use std::sync::PoisonError;
    pub(crate) use std::sync::atomic::Ordering;

    /// Replaces any ordering with the weakest.
    #[derive(Default)]
    pub(crate) struct AtomicU8(loom::sync::atomic::AtomicU8);

    impl AtomicU8 {
        pub(crate) fn swap(&self, value: u8, _: Ordering) -> u8 {
            self.0.swap(value, Ordering::Relaxed)
        }

        pub(crate) fn fetch_or(&self, value: u8, _: Ordering) -> u8 {
            self.0.fetch_or(value, Ordering::Relaxed)
        }
    }
}

#[path = "../../../src/sandbox/relay.rs"]
mod relay;

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn the_model_of_the_relay_fails_without_them() {
    relay_model!(relay::Relay, 1);
}
