//! Ctrl-C and requests to end: the run is cancelled and its workspace removed, then the command
//! ends. A second Ctrl-C, or work that cannot be cancelled, ends it at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::Notify;

use super::engine;
use super::exit::Exit;

/// How long cancelling may take.
const GRACE: Duration = Duration::from_secs(2);

/// The number of the signal that Ctrl-C sends.
const CTRL_C: u8 = 2;

/// The signals that this process got.
#[derive(Debug, Default)]
pub(super) struct Interrupt {
    number: AtomicU8,
    arrived: Notify,
}

impl Interrupt {
    /// Watches for signals on a thread of its own, so that they are seen while the engine is busy.
    /// Without that thread they end the process as they always do.
    pub(super) fn watch() -> Arc<Self> {
        Self::watch_except(|| false)
    }

    /// Like [`watch`](Self::watch), and takes no notice of a Ctrl-C that `handled` has seen to.
    pub(super) fn watch_except(handled: impl Fn() -> bool + Send + 'static) -> Arc<Self> {
        let interrupt = Arc::new(Self::default());
        let shared = Arc::clone(&interrupt);
        let (watch, watching) = std::sync::mpsc::channel();
        // Detached: it ends with the process.
        let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            if let Ok((reactor, signals)) = watching.recv() {
                shared.wait_and_exit(handled, &reactor, signals);
            }
        });
        // On this thread, which need not wait for the other one to come to it. From here on no signal
        // ends the process by itself.
        if thread.is_ok()
            && let Ok(reactor) = engine::reactor()
        {
            let signals = {
                let _within = reactor.enter();
                Signals::new()
            };
            let _ = signals.map(|signals| watch.send((reactor, signals)));
        }
        interrupt
    }

    /// Waits for a signal, and says how the command is to end.
    pub(super) async fn arrived(&self) -> Exit {
        self.arrived.notified().await;
        self.exit()
    }

    fn exit(&self) -> Exit {
        Exit::Signal(self.number.load(Ordering::Relaxed))
    }

    fn wait_and_exit(&self, handled: impl Fn() -> bool, reactor: &Runtime, mut signals: Signals) {
        reactor.block_on(async {
            let number = loop {
                let number = signals.next().await;
                if number != CTRL_C || !handled() {
                    break number;
                }
            };
            self.number.store(number, Ordering::Relaxed);
            self.arrived.notify_one();
            tokio::select! {
                _ = signals.next() => {}
                () = tokio::time::sleep(GRACE) => {}
            }
            std::process::exit(self.exit().code());
        });
    }
}

/// The signals that end a command, each with its number.
#[cfg(unix)]
struct Signals(Vec<(u8, tokio::signal::unix::Signal)>);

#[cfg(unix)]
impl Signals {
    /// Watches SIGHUP, SIGINT and SIGTERM, but not those that the parent had this process ignore:
    /// `nohup` does that, and shells do it for their background jobs.
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let ignored = ignored();
        let watched =
            [1u8, CTRL_C, 15].into_iter().filter(|number| ignored >> (number - 1) & 1 == 0);
        let watch = |number: u8| Ok((number, signal(SignalKind::from_raw(number.into()))?));
        Ok(Self(watched.map(watch).collect::<std::io::Result<_>>()?))
    }

    /// The number of the next signal.
    async fn next(&mut self) -> u8 {
        std::future::poll_fn(|context| {
            for (number, signal) in &mut self.0 {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*number);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// The signals that this process ignores, signal 1 as the lowest bit; none where the system does
/// not tell.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Ctrl-C.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> u8 {
        // A handler that cannot be installed never reports anything.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        CTRL_C
    }
}
