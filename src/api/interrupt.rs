//! Interrupting runs from outside.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// A switch that interrupts the runs it was given to, once and for all: those that wait or run
/// now, and those that begin later. Clones are the same switch; any thread may use it.
///
/// ```
/// use belljar::{Interrupt, Request};
///
/// let interrupt = Interrupt::new();
/// let request = Request::new("while True: pass").interrupt(&interrupt);
/// interrupt.interrupt();
/// assert!(interrupt.is_interrupted());
/// ```
#[derive(Clone, Default)]
pub struct Interrupt(Arc<State>);

#[derive(Default)]
struct State {
    pulled: AtomicBool,
    wake: Notify,
}

impl Interrupt {
    /// A switch that was not used yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Interrupts the runs as Ctrl-C would: their code gets a `KeyboardInterrupt`, and is stopped
    /// if it goes on. The outcome, of kind `interrupted`, holds all that was there up to then.
    pub fn interrupt(&self) {
        self.0.pulled.store(true, Ordering::Release);
        self.0.wake.notify_waiters();
    }

    /// Whether it was used.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.0.pulled.load(Ordering::Acquire)
    }

    /// Resolves when it was used.
    pub(crate) async fn interrupted(&self) {
        // Taken before the look, so that a use that is not seen there is seen here.
        let woken = self.0.wake.notified();
        if !self.is_interrupted() {
            woken.await;
        }
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Interrupt").field(&self.is_interrupted()).finish()
    }
}

/// Two are equal when they are the same switch.
impl PartialEq for Interrupt {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
