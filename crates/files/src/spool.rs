//! The spool: one unnamed file for blocks that exceed the memory of the pool.
//!
//! It is read and written at offsets and never mapped, so a full disk fails a single write. Its
//! slots have the size of a block. The lowest free slot is used first, and the file shrinks when
//! the slots at its end are free.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::block::BLOCK;

/// The file operations that a spool needs.
pub(crate) trait Storage: Send + Sync + fmt::Debug {
    fn read_exact_at(&self, into: &mut [u8], at: u64) -> io::Result<()>;
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Returns space to the disk if the system supports it. The contents become undefined.
    fn discard(&self, at: u64, len: u64);
}

#[cfg(unix)]
impl Storage for File {
    fn read_exact_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, into, at)
    }

    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self, bytes, at)
    }

    #[cfg(target_os = "linux")]
    fn discard(&self, at: u64, len: u64) {
        use rustix::fs::FallocateFlags as Flags;
        // At worst the space stays in use until the file shrinks.
        let _ = rustix::fs::fallocate(self, Flags::PUNCH_HOLE | Flags::KEEP_SIZE, at, len);
    }

    #[cfg(not(target_os = "linux"))]
    fn discard(&self, _: u64, _: u64) {}

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }
}

#[cfg(windows)]
impl Storage for File {
    fn read_exact_at(&self, mut into: &mut [u8], mut at: u64) -> io::Result<()> {
        while !into.is_empty() {
            match std::os::windows::fs::FileExt::seek_read(self, into, at)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => {
                    into = &mut into[read..];
                    at += read as u64;
                }
            }
        }
        Ok(())
    }

    fn write_all_at(&self, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match std::os::windows::fs::FileExt::seek_write(self, bytes, at)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => {
                    bytes = &bytes[written..];
                    at += written as u64;
                }
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn discard(&self, _: u64, _: u64) {}
}

/// A file of slots.
#[derive(Debug)]
pub(crate) struct Spool {
    storage: Box<dyn Storage>,
    slots: Mutex<Slots>,
    /// The process that created it. A forked process has the same file open but does not use it,
    /// because the parent overwrites slots.
    process: u32,
}

#[derive(Debug, Default)]
struct Slots {
    free: BTreeSet<u32>,
    /// Number of slots in the file, used or free.
    end: u32,
    /// Free slots at the end that are still in the file.
    stale: u32,
}

/// Slots to cut off at once: shrinking by single blocks would take too many system calls.
const SHORTENED_BY: u32 = 64;

impl Spool {
    pub(crate) fn new(storage: Box<dyn Storage>) -> Self {
        Self {
            storage,
            slots: Mutex::default(),
            process: std::process::id(),
        }
    }

    fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// Takes a slot for a block, up to a limit of `max` slots.
    pub(crate) fn take(&self, max: u64) -> Option<u32> {
        if !self.is_own() {
            return None;
        }
        let mut slots = self.lock();
        if let Some(slot) = slots.free.pop_first() {
            return Some(slot);
        }
        let slot = slots.end;
        if u64::from(slot) >= max {
            return None;
        }
        slots.end = slot.checked_add(1)?;
        slots.stale = slots.stale.saturating_sub(1);
        Some(slot)
    }

    pub(crate) fn give_back(&self, slot: u32) {
        if !self.is_own() {
            return;
        }
        let is_last = self.lock().end == slot + 1;
        if !is_last {
            // Before another block can take it.
            self.storage.discard(start(slot), BLOCK as u64);
        }
        let mut slots = self.lock();
        slots.free.insert(slot);
        while let Some(last) = slots.end.checked_sub(1)
            && slots.free.remove(&last)
        {
            slots.end = last;
            slots.stale += 1;
        }
        if slots.stale >= SHORTENED_BY || (slots.end == 0 && slots.stale > 0) {
            // At worst the file keeps its length. The lock keeps others from taking a slot that is
            // being cut off.
            if self.storage.set_len(start(slots.end)).is_ok() {
                slots.stale = 0;
            }
        }
    }

    /// Bytes of the slots in use.
    pub(crate) fn taken(&self) -> u64 {
        if !self.is_own() {
            return 0;
        }
        let slots = self.lock();
        (u64::from(slots.end) - slots.free.len() as u64) * BLOCK as u64
    }

    pub(crate) fn read(&self, slot: u32, at: usize, into: &mut [u8]) -> io::Result<()> {
        if !self.is_own() {
            return Err(io::ErrorKind::Other.into());
        }
        self.storage.read_exact_at(into, start(slot) + at as u64)
    }

    pub(crate) fn write(&self, slot: u32, at: usize, bytes: &[u8]) -> io::Result<()> {
        if !self.is_own() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let from = start(slot) + at as u64;
        if from + bytes.len() as u64 > longest() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.storage.write_all_at(bytes, from)
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The process's file size limit. A write past it would raise a fatal signal.
#[cfg(unix)]
fn longest() -> u64 {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

#[cfg(not(unix))]
fn longest() -> u64 {
    u64::MAX
}

fn start(slot: u32) -> u64 {
    u64::from(slot) * BLOCK as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_process_leaves_the_file_alone() {
        let mut spool = Spool::new(Box::new(tempfile::tempfile().unwrap()));
        let slots = [0, 1].map(|_| spool.take(10).unwrap());
        spool.write(slots[0], 5, b"bytes").unwrap();
        spool.process += 1;
        {
            // Held by another thread at the time of a fork.
            let _held = spool.lock();
            assert_eq!((spool.take(10), spool.taken()), (None, 0));
            assert!(spool.write(slots[0], 5, b"other").is_err());
            assert!(spool.read(slots[0], 5, &mut [0; 5]).is_err());
            for slot in slots {
                spool.give_back(slot);
            }
        }
        spool.process -= 1;
        let mut bytes = [0; 5];
        spool.read(slots[0], 5, &mut bytes).unwrap();
        assert_eq!((&bytes, spool.taken()), (b"bytes", 2 * BLOCK as u64));
    }
}
