//! Keeps regions between sandboxes, so that starting a sandbox needs no new mapping and few page
//! faults.
//!
//! A sandbox returns its region dirty, and the region is reset to its image's state before its next
//! use. If a processor is idle, a thread of the pool resets it while the run's outcome is
//! delivered. If all processors are busy, the thread that returns the region resets it: another
//! thread would take a processor from a run, and the pages would be in no cache. The first region
//! stays dirty, because many processes run one sandbox and exit.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use super::sys::Extent;
use super::{Backing, MemoryError, Process, Region};

/// Idle regions.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    /// The process of the pool's thread. In a forked process the thread does not exist, and a lock
    /// may be held forever.
    process: Process,
}

#[derive(Debug)]
struct Shared {
    idle: Mutex<Idle>,
    /// Signals work for the pool's thread, or the end of the pool.
    work: Condvar,
    max_idle: usize,
    processors: usize,
}

#[derive(Debug, Default)]
struct Idle {
    /// Regions in their image's state, longest idle first.
    clean: Vec<Region>,
    /// Regions as their sandboxes left them.
    used: Vec<Region>,
    /// Regions in their image's state, returned by session guests, for other session guests. They
    /// have few resident pages, because those stay in a session guest's memory for its whole life.
    /// Longest idle first.
    rested: Vec<Region>,
    /// Number of regions in use.
    lent: usize,
    /// Number of sandboxes requested so far.
    asked: u64,
    /// Number of sandboxes that must end before the processors count as idle.
    pressure: u32,
    /// Minimum number of clean regions since the thread's last check: the surplus.
    fewest: usize,
    thread: Thread,
    closed: bool,
    /// Number of regions created so far.
    #[cfg(test)]
    made: usize,
}

/// State of the pool's thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Thread {
    /// Not started, because it was never needed.
    #[default]
    None,
    /// Working, or waiting for work.
    Started,
    /// Waiting until surplus regions are old enough.
    Timing,
}

/// Maximum number of used regions that wait for the pool's thread.
const MAX_BEHIND: usize = 2;
/// Maximum size of grown memory that the returning thread clears itself, in bytes.
const MAX_GROWN: usize = 4 << 20;
/// How long a surplus region is kept in case it is needed again.
const SPARE_FOR: Duration = Duration::from_secs(1);
/// After saturation, number of sandbox starts before CPUs are considered idle again.
const PRESSURE: u32 = 8;

/// The pools of this process, and those that it had inherited when it was forked.
static POOLS: Mutex<Pools> = Mutex::new(Vec::new());

type Pools = Vec<(Process, Weak<Shared>)>;

/// Returns `None` if another thread uses the list: in a forked process, that may be so forever.
fn pools() -> Option<MutexGuard<'static, Pools>> {
    match POOLS.try_lock() {
        Ok(pools) => Some(pools),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Releases the pages that idle regions keep for growth, in all pools of this process.
pub(crate) fn release_kept() {
    let own: Vec<_> = pools().map_or_else(Vec::new, |pools| {
        let own = pools.iter().filter(|(process, _)| process.is_current());
        own.filter_map(|(_, pool)| pool.upgrade()).collect()
    });
    for pool in own {
        pool.release_kept();
    }
}

impl Pool {
    /// Creates a pool that keeps at most `max_idle` regions permanently. Surplus regions are
    /// released if they are not needed for a second. An idle region holds the 1 to 16 MiB of its
    /// image that its last sandboxes wrote, and for a second the memory that they grew by.
    pub fn new(max_idle: usize) -> Arc<Self> {
        let shared = Shared {
            idle: Mutex::default(),
            work: Condvar::new(),
            max_idle,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
        };
        let shared = Arc::new(shared);
        let process = Process::current();
        if let Some(mut pools) = pools() {
            pools.retain(|(_, pool)| pool.strong_count() > 0);
            pools.push((process, Arc::downgrade(&shared)));
        }
        Arc::new(Self { shared, process })
    }

    /// Returns a slot with `image`: a region that held it before, a new region, or a remapped one.
    ///
    /// # Errors
    ///
    /// If the address space is exhausted, or the image cannot be mapped.
    pub fn acquire(self: &Arc<Self>, image: &Arc<Backing>) -> Result<Slot, MemoryError> {
        let shared = &self.shared;
        let taken = shared.lock().take(image, shared.max_idle, shared.processors);
        // Counts as lent from here on.
        let mut slot = Slot {
            region: None,
            pool: Arc::clone(self),
            is_lasting: false,
        };
        slot.region = Some(match taken {
            Taken::Clean(region) => region,
            Taken::Used(mut region) => {
                region.reset()?;
                region
            }
            Taken::Other(mut region) => {
                region.map(image)?;
                region
            }
            Taken::None => {
                let mut region = Region::reserve()?;
                region.map(image)?;
                region
            }
        });
        Ok(slot)
    }

    /// Returns a slot with `image` for a session guest. Few of its pages differ from the image
    /// file, and the tracker finds them.
    ///
    /// # Errors
    ///
    /// If the address space is exhausted, or the image cannot be mapped.
    pub fn lasting(self: &Arc<Self>, image: &Arc<Backing>) -> Result<Slot, MemoryError> {
        let rested = {
            let mut idle = self.shared.lock();
            let index = idle.rested.iter().rposition(|region| region.holds(image));
            index.map(|index| idle.rested.remove(index))
        };
        let region = if let Some(region) = rested {
            region
        } else {
            let mut region = Region::reserve()?;
            region.map(image)?;
            region
        };
        Ok(Slot {
            region: Some(region),
            pool: Arc::clone(self),
            is_lasting: true,
        })
    }

    /// Takes back the region of a session guest. If the region cannot be kept, the returning thread
    /// unmaps it.
    fn rest(&self, mut region: Region) {
        if !self.process.is_current() {
            return;
        }
        let is_enough = self.shared.lock().has_rested_like(&region, self.shared.max_idle);
        if is_enough || region.rest().is_err() {
            return;
        }
        let mut idle = self.shared.lock();
        idle.rested.push(region);
        let surplus = (idle.rested.len() > self.shared.max_idle).then(|| idle.rested.remove(0));
        drop(idle);
        drop(surplus);
    }

    /// Takes back the region of a sandbox that has ended.
    fn give_back(&self, region: Region) {
        if !self.process.is_current() {
            return;
        }
        let mut idle = self.shared.lock();
        idle.lent -= 1;
        if idle.asked == 1 && region.grown() <= MAX_GROWN {
            // Until a second sandbox is requested, cleaning may be unnecessary.
            idle.used.push(region);
            return;
        }
        let is_free = idle.pressure == 0 && idle.used.len() < MAX_BEHIND;
        if (is_free || region.grown() > MAX_GROWN) && self.start_thread(&mut idle) {
            idle.used.push(region);
            drop(idle);
            self.shared.work.notify_one();
            return;
        }
        drop(idle);
        if let Some(region) = self.shared.cleaned(region) {
            let mut idle = self.shared.lock();
            idle.clean.push(region);
            let has_spare = idle.has_spare(self.shared.max_idle);
            if has_spare && idle.thread != Thread::Timing && self.start_thread(&mut idle) {
                drop(idle);
                self.shared.work.notify_one();
            }
        }
    }

    /// Removes a region that was not returned from the count of lent regions.
    fn lost(&self) {
        if !self.process.is_current() {
            return;
        }
        self.shared.lock().lent -= 1;
    }

    /// Returns whether the pool's thread exists. It is started on first use.
    fn start_thread(&self, idle: &mut Idle) -> bool {
        if idle.thread == Thread::None {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("belljar-memory".into());
            if thread.spawn(move || shared.work()).is_ok() {
                idle.thread = Thread::Started;
            }
        }
        idle.thread != Thread::None
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if !self.process.is_current() {
            return;
        }
        self.shared.lock().closed = true;
        self.shared.work.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the pages that clean regions keep for growth.
    fn release_kept(&self) {
        let mut keeping: Vec<_> =
            self.lock().clean.extract_if(.., |region| region.kept() > 0).collect();
        keeping.retain_mut(|region| region.release_kept().is_ok());
        self.lock().clean.splice(0..0, keeping);
    }

    /// Resets a region, if possible. A surplus one keeps no pages for growth: many runs may end at
    /// once.
    fn cleaned(&self, mut region: Region) -> Option<Region> {
        region.reset().ok()?;
        if region.kept() > 0 && self.lock().clean.len() >= self.max_idle {
            region.release_kept().ok()?;
        }
        Some(region)
    }

    /// Main loop of the pool's thread until the pool is dropped: resets used regions and releases
    /// surplus ones.
    fn work(&self) {
        let mut idle = self.lock();
        let mut looked = None;
        while !idle.closed {
            if let Some(region) = idle.used.pop() {
                drop(idle);
                let region = self.cleaned(region);
                idle = self.lock();
                idle.clean.extend(region);
                continue;
            }
            if !idle.has_spare(self.max_idle) {
                looked = None;
                idle = self.work.wait(idle).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let since = looked.get_or_insert_with(|| {
                idle.fewest = idle.clean.len();
                Instant::now()
            });
            let left = SPARE_FOR.saturating_sub(since.elapsed());
            if left.is_zero() {
                let (spare, mut unused) = idle.spare(self.max_idle);
                looked = None;
                drop(idle);
                drop(spare);
                unused.retain_mut(|region| region.release_kept().is_ok());
                idle = self.lock();
                idle.clean.splice(0..0, unused);
                continue;
            }
            idle.thread = Thread::Timing;
            (idle, _) = self.work.wait_timeout(idle, left).unwrap_or_else(PoisonError::into_inner);
            idle.thread = Thread::Started;
        }
    }
}

enum Taken {
    Clean(Region),
    /// Holds the image and a sandbox's writes.
    Used(Region),
    /// Holds another image.
    Other(Region),
    None,
}

impl Idle {
    fn take(&mut self, image: &Arc<Backing>, max_idle: usize, processors: usize) -> Taken {
        self.lent += 1;
        self.pressure = if self.lent >= processors {
            PRESSURE
        } else {
            self.pressure.saturating_sub(1)
        };
        self.asked += 1;
        let taken = self.find(image, max_idle);
        self.fewest = self.fewest.min(self.clean.len());
        #[cfg(test)]
        if matches!(taken, Taken::None) {
            self.made += 1;
        }
        taken
    }

    fn find(&mut self, image: &Arc<Backing>, max_idle: usize) -> Taken {
        // The most recently used region is in the processor's caches.
        let holding = |regions: &[Region]| regions.iter().rposition(|r| r.holds(image));
        if let Some(index) = holding(&self.clean) {
            return Taken::Clean(self.clean.remove(index));
        }
        if let Some(index) = holding(&self.used) {
            return Taken::Used(self.used.remove(index));
        }
        // No region holds this image: remap the region that was idle longest instead of keeping
        // more.
        if self.clean.len() >= max_idle {
            return Taken::Other(self.clean.remove(0));
        }
        Taken::None
    }

    /// Whether the maximum number of rested regions already hold the image of `region`.
    fn has_rested_like(&self, region: &Region, max_idle: usize) -> bool {
        self.rested.len() >= max_idle && self.rested.iter().all(|rested| rested.is_like(region))
    }

    /// Whether clean regions are surplus, or keep pages for growth.
    fn has_spare(&self, max_idle: usize) -> bool {
        self.clean.len() > max_idle || self.clean.iter().any(|region| region.kept() > 0)
    }

    /// Takes the regions that were not needed since the last check, oldest first: surplus ones, and
    /// others that keep pages for growth.
    fn spare(&mut self, max_idle: usize) -> (Vec<Region>, Vec<Region>) {
        // There may be fewer: `release_kept` takes some of them for a while.
        let fewest = self.fewest.min(self.clean.len());
        let over = self.clean.len().saturating_sub(max_idle).min(fewest);
        let keeping = self.clean[over..fewest].iter().any(|region| region.kept() > 0);
        let surplus = self.clean.drain(..over).collect();
        let others = if keeping { fewest - over } else { 0 };
        (surplus, self.clean.drain(..others).collect())
    }
}

/// The memory of one sandbox. Dropping it returns the region to the pool.
#[derive(Debug)]
pub struct Slot {
    /// `None` only during creation and drop.
    region: Option<Region>,
    pool: Arc<Pool>,
    /// Whether the guest is kept between runs, in a session.
    is_lasting: bool,
}

impl Slot {
    /// Maximum size of the memory, in bytes.
    pub const CAPACITY: usize = Region::CAPACITY;
    /// Bytes from the base that belong to this memory alone, and are inaccessible past its size.
    pub const RESERVED: usize = Region::RESERVED;

    /// Returns the address of the memory, which never moves.
    pub fn base(&self) -> *mut u8 {
        self.region().base()
    }

    /// Returns the size of the memory, in bytes: this many bytes are readable and writable.
    #[expect(clippy::len_without_is_empty, reason = "no image is empty")]
    pub fn len(&self) -> usize {
        self.region().len()
    }

    /// Grows the memory to `size` bytes. New bytes are zero.
    ///
    /// # Errors
    ///
    /// If the size exceeds [`CAPACITY`](Self::CAPACITY), or the system has no memory left.
    pub fn grow(&mut self, size: usize) -> Result<(), MemoryError> {
        self.region_mut().grow(size)
    }

    /// Returns the permission to map pages into this memory, if the system supports it.
    pub fn extent(&self) -> Option<Extent> {
        self.region().extent()
    }

    pub(crate) fn region(&self) -> &Region {
        self.region.as_ref().expect("a slot has its region until it is dropped")
    }

    pub(crate) fn region_mut(&mut self) -> &mut Region {
        self.region.as_mut().expect("a slot has its region until it is dropped")
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        match self.region.take() {
            Some(region) if self.is_lasting => self.pool.rest(region),
            Some(region) => self.pool.give_back(region),
            None => self.pool.lost(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const PAGE: usize = 4096;
    const PAGES: usize = 50;

    fn image(byte: u8) -> Arc<Backing> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![byte; PAGES * PAGE]).unwrap();
        Arc::new(Backing::new(file, 0, PAGES * PAGE).unwrap())
    }

    /// Simulates a sandbox: checks the image, then writes.
    fn run(pool: &Arc<Pool>, image: &Arc<Backing>, byte: u8, number: usize) {
        let mut slot = pool.acquire(image).unwrap();
        let region = slot.region_mut();
        assert!(region.bytes().iter().all(|is| *is == byte));
        if number.is_multiple_of(3) {
            region.grow((PAGES + 4) * PAGE).unwrap();
            assert!(region.bytes()[PAGES * PAGE..] == [0; 4 * PAGE]);
        }
        let length = region.len() / PAGE;
        for page in (number % 5..length).step_by(1 + number % 7) {
            region.bytes()[page * PAGE + number % PAGE] ^= 0xff;
        }
    }

    /// Waits for the pool's thread. Returns the number of idle regions.
    fn settled(pool: &Pool, count: usize) -> usize {
        for _ in 0..300 {
            if pool.shared.lock().clean.len() == count {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let idle = pool.shared.lock();
        assert!(idle.used.is_empty());
        idle.clean.len()
    }

    #[test]
    fn as_many_regions_are_made_as_are_used_at_once() {
        const THREADS: usize = 6;
        let pool = Pool::new(2);
        let image = image(7);
        let wave = || {
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (pool, image) = (&pool, &image);
                    scope.spawn(move || (0..200).for_each(|n| run(pool, image, 7, n + thread)));
                }
            });
        };
        wave();
        wave();
        let made = pool.shared.lock().made;
        // The pool's thread may hold one more.
        assert!(made <= THREADS + 1, "{made} regions");
        assert_eq!(pool.shared.lock().lent, 0);
        // Surplus regions are released, down to the limit.
        assert_eq!(settled(&pool, 2), 2);
        assert_eq!(pool.shared.lock().made, made);
    }

    #[test]
    fn a_sandbox_never_finds_what_another_left() {
        let pool = Pool::new(3);
        let images = [image(7), image(8), image(9), image(10)];
        for number in 0..200 {
            let which = number * number % 4;
            run(&pool, &images[which], 7 + which as u8, number);
        }
        assert!(settled(&pool, 3) <= 4);
    }

    #[test]
    fn the_first_region_is_cleaned_by_whoever_comes_second() {
        let pool = Pool::new(2);
        let image = image(7);
        run(&pool, &image, 7, 3);
        {
            let idle = pool.shared.lock();
            assert_eq!((idle.used.len(), idle.thread), (1, Thread::None));
        }
        run(&pool, &image, 7, 4);
        assert_eq!(settled(&pool, 1), 1);
        assert_eq!(pool.shared.lock().made, 1);
    }

    #[test]
    fn memory_kept_for_growth_is_released_once_it_is_not_needed() {
        let pool = Pool::new(2);
        let image = image(7);
        for _ in 0..4 {
            let mut slots: Vec<_> = (0..2).map(|_| pool.acquire(&image).unwrap()).collect();
            for slot in &mut slots {
                slot.grow(PAGES * PAGE + (2 << 20)).unwrap();
                let grown = &mut slot.region_mut().bytes()[PAGES * PAGE..];
                assert!(grown.iter().all(|byte| *byte == 0));
                grown.fill(1);
            }
        }
        for _ in 0..300 {
            let idle = pool.shared.lock();
            if idle.clean.len() == 2 && idle.clean.iter().all(|region| region.kept() == 0) {
                return;
            }
            drop(idle);
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("an idle pool keeps memory");
    }

    #[test]
    fn surplus_regions_keep_no_pages_for_growth() {
        let pool = Pool::new(1);
        let image = image(7);
        let mut slots: Vec<_> = (0..4).map(|_| pool.acquire(&image).unwrap()).collect();
        for slot in &mut slots {
            slot.grow(PAGES * PAGE + (2 << 20)).unwrap();
            slot.region_mut().bytes()[PAGES * PAGE..].fill(1);
        }
        drop(slots);
        settled(&pool, 4);
        let idle = pool.shared.lock();
        let keeping = idle.clean.iter().filter(|region| region.kept() > 0).count();
        // Two threads may clean one each.
        assert!(keeping <= 2, "{keeping} regions keep pages");
    }

    #[test]
    fn regions_that_are_taken_for_a_while_are_not_spare() {
        let pool = Pool::new(1);
        drop(pool.acquire(&image(7)).unwrap());
        let mut idle = pool.shared.lock();
        idle.fewest = 5;
        let (surplus, others) = idle.spare(1);
        assert_eq!((surplus.len(), others.len()), (0, 0));
    }

    #[test]
    fn a_process_short_of_memory_takes_back_what_is_kept() {
        let pool = Pool::new(2);
        let image = image(7);
        let mut slot = pool.acquire(&image).unwrap();
        // Is not the pool's only sandbox, so it is cleaned at once.
        drop(pool.acquire(&image).unwrap());
        slot.grow(PAGES * PAGE + (2 << 20)).unwrap();
        slot.region_mut().bytes()[PAGES * PAGE..].fill(1);
        drop(slot);
        settled(&pool, 2);
        let kept = || pool.shared.lock().clean.iter().map(Region::kept).sum::<usize>();
        if cfg!(memory = "linux") && kept() == 0 {
            return crate::sys::skip("a kernel that lists pages (PAGEMAP_SCAN, Linux 6.7)");
        }
        // A test of another pool may hold the list.
        for _ in 0..1000 {
            release_kept();
            if kept() == 0 {
                break;
            }
        }
        assert_eq!(kept(), 0);
    }

    #[test]
    fn regions_go_with_their_pool_and_their_slots() {
        let pool = Pool::new(2);
        let image = image(7);
        let slots: Vec<_> = (0..4).map(|_| pool.acquire(&image).unwrap()).collect();
        assert_eq!(Arc::strong_count(&image), 5);
        drop(pool);
        drop(slots);
        // The pool's thread may be cleaning a region.
        for _ in 0..300 {
            if Arc::strong_count(&image) == 1 {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("a region outlives its pool");
    }
}
