//! Ctrl-C and termination: cancels the run and removes its workspace, then exits. A second Ctrl-C
//! exits at once, and so does a signal during work that cannot be cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::Notify;

use super::engine;
use super::exit::Exit;

/// Time limit for cancelling.
const GRACE: Duration = Duration::from_secs(2);

/// Number of the signal sent by Ctrl-C.
const CTRL_C: u8 = 2;

/// Signals received by this process.
#[derive(Debug, Default)]
pub(super) struct Interrupt {
    number: AtomicU8,
    arrived: Notify,
}

impl Interrupt {
    /// Watches for signals on a separate thread, because the engine may keep this one busy. If the
    /// thread cannot be started, signals end the process as usual.
    pub(super) fn watch() -> Arc<Self> {
        Self::watch_except(|| false)
    }

    /// Like [`watch`](Self::watch), but ignores a Ctrl-C for which `handled` returns true.
    pub(super) fn watch_except(handled: impl Fn() -> bool + Send + 'static) -> Arc<Self> {
        let interrupt = Arc::new(Self::default());
        let shared = Arc::clone(&interrupt);
        let (watch, watching) = std::sync::mpsc::channel();
        // Detached: ends with the process.
        let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            if let Ok((reactor, signals)) = watching.recv() {
                shared.wait_and_exit(handled, &reactor, signals);
            }
        });
        // Registered on this thread, without waiting for the other one to do it. From now on
        // signals do not end the process by default.
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

    /// Waits for a signal, and returns the exit status for it.
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

/// The terminating signals, with their numbers.
#[cfg(unix)]
struct Signals(Vec<(u8, tokio::signal::unix::Signal)>);

#[cfg(unix)]
impl Signals {
    /// Watches SIGHUP, SIGINT and SIGTERM, except those that the parent process ignores, as `nohup`
    /// does, and shells for background jobs.
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let ignored = ignored();
        let watched =
            [1u8, CTRL_C, 15].into_iter().filter(|number| ignored >> (number - 1) & 1 == 0);
        let watch = |number: u8| Ok((number, signal(SignalKind::from_raw(number.into()))?));
        Ok(Self(watched.map(watch).collect::<std::io::Result<_>>()?))
    }

    /// Number of the next signal.
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

/// Bit set of the signals that this process ignores, with signal 1 as the lowest bit; 0 if the
/// system does not say.
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
        // Without a handler, wait forever.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        CTRL_C
    }
}
