//! Every thread is held, whatever it does while the others are.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::Attack;
use super::world::{World, told};

pub(crate) const ATTACKS: &[(&str, Attack)] = &[
    ("any_thread", any_thread),
    ("a_thread_that_is_started_meanwhile", a_thread_that_is_started_meanwhile),
    ("a_call_of_another_thread", |_, lock| {
        let (go, went) = channel();
        let other = std::thread::spawn(move || {
            let _ = went.recv();
            told(std::process::Command::new("/bin/true").status()).map(drop)
        });
        lock();
        let _ = go.send(());
        other.join().map_err(|_| "it panicked".to_owned())?
    }),
    ("a_thread_that_the_kernel_does_not_list_as_held", |_, lock| {
        let (keep, wait) = channel::<()>();
        let other = std::thread::spawn(move || wait.recv());
        lock();
        let held = held()?;
        drop(keep);
        let _ = other.join();
        if held {
            Err("all are".to_owned())
        } else {
            Ok(())
        }
    }),
];

/// Whether every thread has a filter and can get no new privileges.
fn held() -> Result<bool, String> {
    let mut all = true;
    for thread in told(std::fs::read_dir("/proc/self/task"))? {
        let status = told(std::fs::read_to_string(told(thread)?.path().join("status")))?;
        all &= ["Seccomp:\t2", "NoNewPrivs:\t1"].iter().all(|line| status.contains(line));
    }
    Ok(all)
}

/// Threads that sleep, wait, read, spin and block signals: a single thread that can still read the
/// secret is enough.
fn any_thread(world: &World, lock: &dyn Fn()) -> Result<(), String> {
    let secret = world.path("home/secret");
    let is_over = Arc::new(AtomicBool::new(false));
    let (say, said) = channel();
    let mut threads = Vec::new();
    let mut ends = Vec::new();
    for number in 0..12 {
        let (wait, is_over): (Wait, _) = match number % 4 {
            0 => {
                let (end, waits) = channel::<()>();
                ends.push(End::Channel(end));
                (Wait::Channel(waits), Arc::clone(&is_over))
            }
            1 => {
                let (end, reads) = told(UnixStream::pair())?;
                ends.push(End::Socket(end));
                (Wait::Read(reads), Arc::clone(&is_over))
            }
            2 => (Wait::Sleep, Arc::clone(&is_over)),
            _ => (Wait::Spin, Arc::clone(&is_over)),
        };
        let (secret, say) = (secret.clone(), say.clone());
        threads.push(std::thread::spawn(move || {
            wait.until(&is_over);
            let _ = say.send(std::fs::read(secret).is_ok());
        }));
    }
    drop(say);
    // They are to be where they wait.
    std::thread::sleep(Duration::from_millis(20));
    lock();
    is_over.store(true, Ordering::SeqCst);
    drop(ends);
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked".to_owned())?;
    }
    let read: Vec<bool> = said.iter().collect();
    if read.len() != 12 {
        return Err(format!("{} threads answered", read.len()));
    }
    if read.contains(&true) {
        Ok(())
    } else {
        Err("no thread reads it".to_owned())
    }
}

/// Threads that start threads, again and again, while the lock comes down.
fn a_thread_that_is_started_meanwhile(world: &World, lock: &dyn Fn()) -> Result<(), String> {
    let secret = world.path("home/secret");
    let is_locked = Arc::new(AtomicBool::new(false));
    let (say, said) = channel();
    for _ in 0..4 {
        let (secret, is_locked, say) = (secret.clone(), Arc::clone(&is_locked), say.clone());
        std::thread::spawn(move || breed(&secret, &is_locked, &say, 2_000));
    }
    drop(say);
    std::thread::sleep(Duration::from_millis(5));
    lock();
    is_locked.store(true, Ordering::SeqCst);
    let read: Vec<bool> = said.iter().collect();
    if read.len() != 4 {
        return Err(format!("{} of four answered", read.len()));
    }
    if read.contains(&true) {
        Ok(())
    } else {
        Err("no thread reads it".to_owned())
    }
}

/// A thread that passes its work on to the next, until the lock is down.
fn breed(secret: &std::path::Path, is_locked: &Arc<AtomicBool>, say: &Sender<bool>, left: u32) {
    if is_locked.load(Ordering::SeqCst) || left == 0 {
        while !is_locked.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let _ = say.send(std::fs::read(secret).is_ok());
        return;
    }
    let (secret, is_locked, say) = (secret.to_owned(), Arc::clone(is_locked), say.clone());
    std::thread::spawn(move || breed(&secret, &is_locked, &say, left - 1));
}

enum Wait {
    Channel(Receiver<()>),
    Read(UnixStream),
    Sleep,
    Spin,
}

/// What ends a wait when it is dropped.
#[expect(dead_code, reason = "only dropped")]
enum End {
    Channel(Sender<()>),
    Socket(UnixStream),
}

impl Wait {
    fn until(mut self, is_over: &AtomicBool) {
        match &mut self {
            Self::Channel(waits) => drop(waits.recv()),
            Self::Read(reads) => drop(reads.read_to_end(&mut Vec::new())),
            Self::Sleep | Self::Spin => {}
        }
        while !is_over.load(Ordering::SeqCst) {
            if matches!(self, Self::Sleep) {
                std::thread::sleep(Duration::from_millis(10));
            }
            std::hint::spin_loop();
        }
    }
}
