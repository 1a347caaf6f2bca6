//! Has every thread give up files, by Landlock, and capabilities, which the kernel keeps by thread.
//! Until ABI 8 Landlock, too, restricts the thread that asks and those that it starts later. The
//! others are therefore stopped by a signal, each in a handler. Once no thread is left that could
//! start another, each restricts itself in its handler and goes on.
//!
//! A thread may be stopped while it holds any lock, that of the allocator among them. The thread
//! that stops the others takes no lock until they continue: it only makes system calls and uses
//! memory that it has.
#![expect(
    unsafe_code,
    reason = "a signal handler, and system calls without a wrapper"
)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::capabilities;
use crate::status::LockdownError;

/// How long the threads may take to stop.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether they have.
const LOOK: Duration = Duration::from_micros(50);
/// After so long a thread is signalled again: another may have its number now.
const AGAIN: u32 = 200;
/// Lists of threads, one after the other, in which all have stopped. The kernel makes no promise
/// for one while threads come and go.
const QUIET_LISTS: u32 = 2;
/// The most threads that can be held so.
const MOST: usize = 16_384;

/// `LANDLOCK_RESTRICT_SELF_TSYNC`.
const TSYNC: u32 = 1 << 3;

/// The rules by which threads restrict themselves.
static RULES: AtomicI32 = AtomicI32::new(-1);
/// The capabilities that they keep, a bit each.
static KEPT: AtomicU64 = AtomicU64::new(0);
/// What stopped threads are to do; they sleep on it.
static ORDER: AtomicU32 = AtomicU32::new(GO_ON);
const GO_ON: u32 = 0;
const STOP: u32 = 1;
const RESTRICT: u32 = 2;
const DROP: u32 = 3;
/// The threads that have stopped, as many as there are.
static STOPPED: [AtomicI32; MOST] = [const { AtomicI32::new(0) }; MOST];
static STOPPED_COUNT: AtomicUsize = AtomicUsize::new(0);
/// How many have done so, or failed to.
static DONE: AtomicUsize = AtomicUsize::new(0);
/// The last failure, as an `errno`.
static FAILURE: AtomicI32 = AtomicI32::new(0);

/// Held while the above are in use.
static ONE: Mutex<()> = Mutex::new(());

/// Has the kernel hold all threads by one call.
pub(super) fn hold_at_once(rules: &OwnedFd) -> Result<(), LockdownError> {
    told(restrict(rules.as_raw_fd(), TSYNC))
}

/// Has each thread hold itself, this one last.
pub(super) fn hold_each(rules: &OwnedFd) -> Result<(), LockdownError> {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    RULES.store(rules.as_raw_fd(), Ordering::SeqCst);
    told(each(RESTRICT)?)
}

/// Has each thread give up all capabilities but the kept ones.
pub(super) fn drop_capabilities(kept: u64) -> Result<(), LockdownError> {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    KEPT.store(kept, Ordering::SeqCst);
    match each(DROP)? {
        0 => Ok(()),
        error => Err(LockdownError::Setting {
            what: "giving up capabilities",
            source: io::Error::from_raw_os_error(error),
        }),
    }
}

/// Has each thread obey an order, this one last, and returns an `errno` or 0.
fn each(order: u32) -> Result<i32, LockdownError> {
    // Most processes have one thread when they lock themselves down. It starts none meanwhile.
    if !is_alone() {
        let errno = others(order)?;
        if errno != 0 {
            return Ok(errno);
        }
    }
    Ok(obey(order))
}

/// Does to this thread what an order says, and returns an `errno` or 0.
fn obey(order: u32) -> i32 {
    match order {
        RESTRICT => restrict(RULES.load(Ordering::SeqCst), 0),
        DROP => capabilities::keep(KEPT.load(Ordering::SeqCst)),
        _ => 0,
    }
}

/// Whether this thread is the only one. The kernel lets only such a thread leave its group, which
/// changes nothing for it; if the call is denied, the answer is unknown.
fn is_alone() -> bool {
    // SAFETY: this call takes numbers only.
    unsafe { libc::unshare(libc::CLONE_THREAD) == 0 }
}

fn told(errno: i32) -> Result<(), LockdownError> {
    match errno {
        0 => Ok(()),
        error => Err(LockdownError::Landlock(io::Error::from_raw_os_error(error))),
    }
}

fn others(order: u32) -> Result<i32, LockdownError> {
    let mut list = List::open().map_err(LockdownError::Threads)?;
    for stopped in &STOPPED[..stopped_count()] {
        stopped.store(0, Ordering::SeqCst);
    }
    STOPPED_COUNT.store(0, Ordering::SeqCst);
    DONE.store(0, Ordering::SeqCst);
    FAILURE.store(0, Ordering::SeqCst);
    ORDER.store(STOP, Ordering::SeqCst);
    let mut asked = Vec::with_capacity(MOST);
    let handler = Handler::install()?;
    // From here on no memory is taken or given back until all go on.
    let stopped = stop(&handler, &mut list, &mut asked);
    let order = if stopped.is_ok() { order } else { GO_ON };
    ORDER.store(order, Ordering::SeqCst);
    wake_all();
    let start = Instant::now();
    while order != GO_ON && DONE.load(Ordering::SeqCst) < stopped_count() {
        if start.elapsed() > PATIENCE {
            return Err(LockdownError::Thread(0));
        }
        std::thread::sleep(LOOK);
    }
    drop(handler);
    match stopped {
        Ok(()) => Ok(FAILURE.load(Ordering::SeqCst)),
        Err(Unstopped::Thread(thread)) => Err(LockdownError::Thread(thread)),
        Err(Unstopped::Unknown(errno)) => {
            Err(LockdownError::Threads(io::Error::from_raw_os_error(errno)))
        }
    }
}

/// Why not all threads have stopped. It takes no memory.
enum Unstopped {
    Thread(i32),
    Unknown(i32),
}

/// Signals every thread until all but this one have stopped.
fn stop(
    handler: &Handler,
    threads: &mut List,
    asked: &mut Vec<(i32, u32)>,
) -> Result<(), Unstopped> {
    let own = thread();
    let unknown = |error: io::Error| Unstopped::Unknown(error.raw_os_error().unwrap_or(libc::EIO));
    let start = Instant::now();
    let mut quiet = 0;
    while quiet < QUIET_LISTS {
        threads.read().map_err(unknown)?;
        let mut waits_for = None;
        for thread in threads.threads.iter().copied() {
            if thread == own || has_stopped(thread) {
                continue;
            }
            waits_for = Some(thread);
            let known = asked.iter().position(|(known, _)| *known == thread);
            let looks = match known {
                Some(known) => &mut asked[known].1,
                None if asked.len() == asked.capacity() => return Err(Unstopped::Thread(thread)),
                None => {
                    asked.push((thread, AGAIN));
                    let last = asked.len() - 1;
                    &mut asked[last].1
                }
            };
            *looks += 1;
            if *looks > AGAIN {
                *looks = 0;
                signal(thread, handler.signal).map_err(unknown)?;
            }
        }
        let Some(thread) = waits_for else {
            quiet += 1;
            continue;
        };
        quiet = 0;
        if start.elapsed() > PATIENCE {
            return Err(Unstopped::Thread(thread));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn stopped_count() -> usize {
    STOPPED_COUNT.load(Ordering::SeqCst).min(MOST)
}

fn has_stopped(thread: i32) -> bool {
    STOPPED[..stopped_count()].iter().any(|stopped| stopped.load(Ordering::SeqCst) == thread)
}

/// The list of this process's threads. Read again and again, it takes no memory.
struct List {
    directory: OwnedFd,
    entries: Vec<u8>,
    threads: Vec<i32>,
}

impl List {
    fn open() -> io::Result<Self> {
        Ok(Self {
            directory: std::fs::File::open("/proc/self/task")?.into(),
            entries: vec![0; 32 << 10],
            threads: Vec::with_capacity(MOST),
        })
    }

    fn read(&mut self) -> io::Result<()> {
        self.threads.clear();
        // SAFETY: this call takes numbers only.
        if unsafe { libc::lseek(self.directory.as_raw_fd(), 0, libc::SEEK_SET) } != 0 {
            return Err(io::Error::last_os_error());
        }
        loop {
            let (place, length) = (self.entries.as_mut_ptr(), self.entries.len());
            let directory = self.directory.as_raw_fd();
            // SAFETY: the buffer is as long as is said, and belongs to this list.
            let read = unsafe { libc::syscall(libc::SYS_getdents64, directory, place, length) };
            let Ok(read) = usize::try_from(read) else {
                return Err(io::Error::last_os_error());
            };
            if read == 0 {
                return Ok(());
            }
            self.take(read)?;
        }
    }

    /// Takes the numbers out of entries as `linux_dirent64` lays them out.
    fn take(&mut self, read: usize) -> io::Result<()> {
        const LENGTH: usize = 16;
        const NAME: usize = 19;
        let mut rest = &self.entries[..read];
        while let [_, ..] = rest {
            let length =
                rest.get(LENGTH..LENGTH + 2).map(|two| u16::from_ne_bytes([two[0], two[1]]));
            let length = usize::from(length.unwrap_or(0));
            let (Some(entry), Some(after)) = (rest.get(NAME..length), rest.get(length..)) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            rest = after;
            let name = entry.split(|byte| *byte == 0).next().unwrap_or_default();
            let number = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok());
            if let Some(number) = number {
                if self.threads.len() == self.threads.capacity() {
                    return Err(io::ErrorKind::OutOfMemory.into());
                }
                self.threads.push(number);
            }
        }
        Ok(())
    }
}

/// The signal handler in which threads stop. Dropped, it is removed.
struct Handler {
    signal: i32,
}

impl Handler {
    /// Installs it on an unused real-time signal.
    fn install() -> Result<Self, LockdownError> {
        for signal in (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev() {
            // SAFETY: all-zero bytes are a valid `sigaction`, with the default action.
            let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: with no new action the call only writes the present one to `before`.
            let found = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut before) };
            if found != 0 || before.sa_sigaction != libc::SIG_DFL {
                continue;
            }
            // SAFETY: as above.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
            // SAFETY: `action` is whole, its handler has the signature of one without
            // `SA_SIGINFO`, and calls only what is safe in a handler.
            if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } == 0 {
                return Ok(Self { signal });
            }
        }
        Err(LockdownError::Threads(io::Error::other("no signal is free")))
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        // To ignore a signal discards those that wait for a thread that has it blocked: with the
        // default action they would end the process later.
        for action in [libc::SIG_IGN, libc::SIG_DFL] {
            // SAFETY: sets an action that has no handler.
            unsafe { libc::signal(self.signal, action) };
        }
    }
}

/// Stops a thread until it is told what to do. It calls the kernel and touches atomics, and
/// nothing else.
extern "C" fn on_signal(_: libc::c_int) {
    let own = thread();
    // A thread that is signalled twice stops once.
    if ORDER.load(Ordering::SeqCst) != STOP || has_stopped(own) {
        return;
    }
    let place = STOPPED_COUNT.fetch_add(1, Ordering::SeqCst);
    let Some(entry) = STOPPED.get(place) else {
        return;
    };
    // SAFETY: the place of this thread's `errno` is valid for as long as the thread.
    let errno_place = unsafe { libc::__errno_location() };
    // SAFETY: as above. What is interrupted may be about to read it.
    let before = unsafe { *errno_place };
    entry.store(own, Ordering::SeqCst);
    let order = loop {
        match ORDER.load(Ordering::SeqCst) {
            STOP => sleep_on_order(),
            order => break order,
        }
    };
    if order != GO_ON {
        let failure = obey(order);
        if failure != 0 {
            FAILURE.store(failure, Ordering::SeqCst);
        }
        DONE.fetch_add(1, Ordering::SeqCst);
    }
    // SAFETY: as above.
    unsafe { *errno_place = before };
}

/// Sleeps while the order is to stop, or returns for no reason.
fn sleep_on_order() {
    let (operation, forever) = (libc::FUTEX_WAIT, std::ptr::null::<libc::timespec>());
    // SAFETY: the order lives as long as the process, and the kernel only reads it.
    unsafe { libc::syscall(libc::SYS_futex, ORDER.as_ptr(), operation, STOP, forever) };
}

fn wake_all() {
    // SAFETY: the order lives as long as the process, and the kernel only takes its address.
    unsafe { libc::syscall(libc::SYS_futex, ORDER.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// Restricts this thread, and returns an `errno` or 0.
fn restrict(rules: i32, flags: u32) -> i32 {
    let (one, zero): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: this option takes numbers only.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, one, zero, zero, zero) } != 0 {
        return errno();
    }
    // SAFETY: this call takes numbers only.
    if unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules, flags) } != 0 {
        return errno();
    }
    0
}

/// Why the last call failed; without memory of its own, as a handler needs it.
pub(super) fn errno() -> i32 {
    // SAFETY: the place of this thread's `errno` is valid for as long as the thread.
    match unsafe { *libc::__errno_location() } {
        0 => libc::EINVAL,
        error => error,
    }
}

/// The number of the calling thread.
fn thread() -> i32 {
    // SAFETY: this call takes nothing.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Sends a signal to a thread of this process, if there is such a thread.
fn signal(thread: i32, signal: i32) -> io::Result<()> {
    let process = std::process::id().cast_signed();
    // SAFETY: this call takes numbers only.
    if unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        error => Err(error),
    }
}
