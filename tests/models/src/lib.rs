//! Models of the state that threads share while a guest runs: the engine's own files, compiled with
//! loom's atomics and locks, which try every interleaving and every value that weak memory allows.
//!
//! A separate crate, so that only loom is compiled for it, and the engine needs no `cfg`.
#![cfg(test)]
#![expect(
    clippy::duplicate_mod,
    reason = "a model of the relay without its orderings has to fail"
)]

mod notify;
mod sync {
    pub(crate) use std::sync::PoisonError;

    pub(crate) use loom::sync::Mutex;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

    pub(crate) use crate::notify::{Notified, Notify};
}

#[path = "../../../src/sandbox/control.rs"]
#[expect(dead_code, reason = "the models use a part of it")]
mod control;
#[path = "../../../src/sandbox/relay.rs"]
mod relay;

mod task;

/// A guest that waits for other threads, polled as in `drive.rs`. Their writes before a wakeup are
/// unordered by themselves: the ordering of the wakeup must make them visible.
macro_rules! relay_model {
    ($relay:ty, $others:literal) => {
        use loom::sync::atomic::{AtomicUsize, Ordering};

        loom::model(|| {
            let relay = std::sync::Arc::new(<$relay>::default());
            let happened = std::sync::Arc::new(AtomicUsize::new(0));
            crate::task::run(|context, others| {
                let (polled, held_back) = relay.poll(context, |inner| {
                    if happened.load(Ordering::Relaxed) == $others {
                        return std::task::Poll::Ready(());
                    }
                    if others.is_empty() {
                        others.extend((0..$others).map(|_| {
                            let (happened, waker) = (happened.clone(), inner.waker().clone());
                            loom::thread::spawn(move || {
                                happened.fetch_add(1, Ordering::Relaxed);
                                waker.wake();
                            })
                        }));
                    }
                    std::task::Poll::Pending
                });
                if polled.is_pending() && held_back {
                    context.waker().wake_by_ref();
                }
                polled
            });
        });
    };
}

mod unordered;

mod tests {
    use std::future::pending;
    use std::pin::pin;

    use crate::control::{Control, StopReason};
    use crate::relay::Relay;
    use crate::task;

    #[test]
    fn no_wake_up_is_lost_in_the_relay() {
        relay_model!(Relay, 1);
    }

    #[test]
    fn nor_is_the_second_of_two() {
        relay_model!(Relay, 2);
    }

    #[test]
    fn who_asks_for_a_stop_is_heard() {
        loom::model(|| {
            let control = Control::new();
            let asking = control.clone();
            let other = loom::thread::spawn(move || asking.ask(StopReason::Interrupted));
            let mut heard = pin!(async {
                while control.asked().is_none() {
                    control.asked_for().await;
                }
            });
            task::run_beside([other], |context, _| heard.as_mut().poll(context));
            assert_eq!(control.asked(), Some(StopReason::Interrupted));
        });
    }

    #[test]
    fn the_first_reason_stays() {
        loom::model(|| {
            let control = Control::new();
            let others = [StopReason::Output, StopReason::Interrupted].map(|reason| {
                let control = control.clone();
                loom::thread::spawn(move || control.ask(reason))
            });
            let first = control.asked();
            for other in others {
                other.join().expect("it does not panic");
            }
            let last = control.asked();
            assert!(last.is_some() && (first.is_none() || first == last), "{first:?}, {last:?}");
        });
    }

    #[test]
    fn a_sleeping_guest_is_woken() {
        loom::model(|| {
            let control = Control::new();
            let interrupting = control.clone();
            let other = loom::thread::spawn(move || interrupting.interrupt());
            let mut asleep = pin!(control.wait_for(pending::<()>()));
            task::run_beside([other], |context, _| asleep.as_mut().poll(context).map(drop));
            assert!(control.is_interrupted());
        });
    }

    #[test]
    fn a_guest_that_is_held_up_is_woken_and_sees_it_when_it_sleeps() {
        loom::model(|| {
            let control = Control::new();
            let interrupting = control.clone();
            let other = loom::thread::spawn(move || interrupting.interrupt());
            let mut held_up = pin!(async {
                control.wait(pending()).await;
                assert_eq!(control.wait_for(pending::<()>()).await, None);
            });
            task::run_beside([other], |context, _| held_up.as_mut().poll(context));
        });
    }
}
