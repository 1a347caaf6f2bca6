//! Code compiled ahead of its first use: no caller waits for the compilation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use belljar::progress::{Progress, Stage};
use belljar::{Request, Runtime, SessionOptions};

use crate::caches;
use crate::support::succeeded;
use crate::tiers::without_code;

/// Reports the start and the end of a compilation.
#[derive(Default)]
struct Compiling {
    begun: Mutex<bool>,
    told: Condvar,
    ended: AtomicBool,
}

impl Progress for Compiling {
    fn begin(&self, stage: Stage, _: &str) {
        if stage == Stage::Compile {
            *self.begun.lock().unwrap() = true;
            self.told.notify_all();
        }
    }

    fn end(&self, stage: Stage) {
        if stage == Stage::Compile {
            self.ended.store(true, Ordering::SeqCst);
        }
    }
}

/// Suspending a session is divided among threads. On the compiler's threads it would end with the
/// compilation.
#[test]
fn a_session_is_suspended_while_code_is_compiled() {
    let session =
        caches::runtime().blocking().session(SessionOptions::new().image("data")).unwrap();
    succeeded(&session.run(Request::new("x = 20")).unwrap());
    let dir = tempfile::tempdir().unwrap();
    without_code(dir.path());

    let compiling = Arc::new(Compiling::default());
    let progress = Arc::<Compiling>::clone(&compiling);
    let builder =
        Runtime::builder().environment().cache(dir.path()).background(true).progress(progress);
    let runtime = builder.build().unwrap();
    let begun = compiling.told.wait_while(compiling.begun.lock().unwrap(), |begun| !*begun);
    drop(begun.unwrap());
    // It finishes the current tier, and starts no other, once the runtime is dropped.
    drop(runtime);
    let mut meanwhile = 0;
    while meanwhile < 3 && !compiling.ended.load(Ordering::SeqCst) {
        assert!(session.suspend().unwrap());
        if !compiling.ended.load(Ordering::SeqCst) {
            meanwhile += 1;
        }
        succeeded(&session.run(Request::new("x += 1")).unwrap());
    }
    assert_eq!(meanwhile, 3, "it was suspended so many times before the compilation ended");
    let begun = Instant::now();
    while !compiling.ended.load(Ordering::SeqCst) && begun.elapsed() < Duration::from_mins(5) {
        std::thread::sleep(Duration::from_millis(50));
    }
}
