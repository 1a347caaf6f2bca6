//! Interrupting runs from outside.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Interrupts every run that it was given to: waiting, running and future runs. It cannot be reset.
/// Clones share one switch, and any thread may use it.
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
    /// Creates an unused switch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Interrupts the runs as Ctrl-C would: the code gets a `KeyboardInterrupt` and is stopped if
    /// it continues. The outcome has kind `interrupted` and contains all output up to that point.
    pub fn interrupt(&self) {
        self.0.pulled.store(true, Ordering::Release);
        self.0.wake.notify_waiters();
    }

    /// Returns whether the switch was used.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.0.pulled.load(Ordering::Acquire)
    }

    /// Resolves when the switch is used.
    pub(crate) async fn interrupted(&self) {
        // Register before the check, so that a use between the two is not missed.
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

/// Two switches are equal if they are the same switch.
impl PartialEq for Interrupt {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
