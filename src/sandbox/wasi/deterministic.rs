//! Host files in a deterministic run: their numbers, times and listing order reveal nothing about
//! the host. Their time is the clock's start.

use std::collections::HashMap;
use std::time::Duration;

use wasmtime_wasi::p1::wasi_snapshot_preview1::{self as p1, WasiSnapshotPreview1};
use wiggle::GuestMemory;

use super::guest_memory::{Answer, offset, read, read_u32, write};
use super::{FAULT, OVERFLOW, SUCCESS, State, guest, returned};
use crate::limits::MAX_COPIED;

// Offsets in a file's status in WASI.
const NUMBER: u32 = 8;
const TYPE: u32 = 16;
const LINKS: u32 = 24;
const SIZE: u32 = 32;
const TIMES: [u32; 3] = [40, 48, 56];
const DIRECTORY: u8 = 3;

// Offsets in a directory entry in WASI; the name follows.
const ENTRY: usize = 24;
const ENTRY_NUMBER: usize = 8;
const ENTRY_NAME: usize = 16;

/// Size of the first buffer for a directory's entries, and its maximum.
const LISTING: usize = 64 << 10;
const MAX_LISTING: usize = 32 << 20;
/// First file number for host files; other files have smaller numbers.
const FIRST_NUMBER: u64 = 1 << 48;

/// What the guest was shown of host files.
pub(in crate::sandbox) struct Shown {
    epoch_ns: u64,
    /// Shown numbers by the host's numbers.
    numbers: HashMap<u64, u64>,
    /// The directory listed last, because a guest reads a listing in several calls.
    listing: Option<(i32, Vec<Entry>)>,
}

struct Entry {
    number: u64,
    kind: u8,
    name: Vec<u8>,
}

impl Shown {
    pub(in crate::sandbox) fn new(epoch: Duration) -> Self {
        Self {
            epoch_ns: u64::try_from(epoch.as_nanos()).unwrap_or(u64::MAX),
            numbers: HashMap::new(),
            listing: None,
        }
    }

    fn number(&mut self, of_host: u64) -> u64 {
        let next = FIRST_NUMBER + self.numbers.len() as u64;
        *self.numbers.entry(of_host).or_insert(next)
    }

    /// Rewrites a file's status at `out` before the guest reads it.
    fn rewrite(&mut self, memory: &mut [u8], out: i32) -> Answer {
        let of_host = u64::from_le_bytes(read(memory, offset(out, NUMBER)?)?);
        let [kind] = read(memory, offset(out, TYPE)?)?;
        write(memory, offset(out, NUMBER)?, &self.number(of_host).to_le_bytes())?;
        write(memory, offset(out, LINKS)?, &1u64.to_le_bytes())?;
        if kind == DIRECTORY {
            write(memory, offset(out, SIZE)?, &0u64.to_le_bytes())?;
        }
        for time in TIMES {
            write(memory, offset(out, time)?, &self.epoch_ns.to_le_bytes())?;
        }
        Ok(())
    }
}

impl State {
    /// Rewrites a host file's status at `out`, in a deterministic run.
    pub(super) fn show(&mut self, memory: &mut GuestMemory<'_>, out: i32, result: i32) -> i32 {
        match (&mut self.shown, memory) {
            (Some(shown), GuestMemory::Unshared(memory)) if result == SUCCESS => {
                shown.rewrite(memory, out).err().unwrap_or(SUCCESS)
            }
            _ => result,
        }
    }

    /// Lists a host directory for the guest.
    pub(super) async fn list_host(
        &mut self,
        memory: &mut [u8],
        fd: i32,
        (buffer, size): (i32, i32),
        cookie: i64,
        out: i32,
    ) -> wasmtime::Result<i32> {
        let Some(shown) = &mut self.shown else {
            let (wasi, memory) = (&mut self.wasi, &mut guest(memory));
            return p1::fd_readdir(wasi, memory, fd, buffer, size, cookie, out).await;
        };
        let is_listed = shown.listing.as_ref().is_some_and(|(listed, _)| *listed == fd);
        if cookie == 0 || !is_listed {
            match self.sorted(fd).await? {
                Ok(entries) => {
                    if let Some(shown) = &mut self.shown {
                        shown.listing = Some((fd, entries));
                    }
                }
                Err(error) => return Ok(error),
            }
        }
        let first = usize::try_from(cookie).unwrap_or(usize::MAX);
        let entries = self
            .shown
            .as_mut()
            .and_then(|shown| shown.entries(first, size.cast_unsigned() as usize));
        returned(entries.ok_or(FAULT).and_then(|entries| {
            write(memory, buffer, &entries)?;
            write(memory, out, &(entries.len() as u32).to_le_bytes())
        }))
    }

    /// Returns all entries of a host directory, sorted by name.
    async fn sorted(&mut self, fd: i32) -> wasmtime::Result<Answer<Vec<Entry>>> {
        let mut size = LISTING;
        while size <= MAX_LISTING {
            // The number of bytes read is stored after the buffer.
            let mut buffer = vec![0; size + 4];
            let end = i32::try_from(size)?;
            self.wasi.set_hostcall_fuel(MAX_COPIED);
            let (wasi, memory) = (&mut self.wasi, &mut guest(&mut buffer));
            let result = p1::fd_readdir(wasi, memory, fd, 0, end, 0, end).await?;
            if result != SUCCESS {
                return Ok(Err(result));
            }
            let used = read_u32(&buffer, end).unwrap_or_default() as usize;
            if used < size {
                let mut entries = Entry::read_all(&buffer[..used]);
                // `.` and `..` come first, as usual.
                let dots = entries.len().min(2);
                entries[dots..].sort_by(|a, b| a.name.cmp(&b.name));
                return Ok(Ok(entries));
            }
            size *= 8;
        }
        Ok(Err(OVERFLOW))
    }
}

impl Entry {
    /// Parses complete entries.
    fn read_all(mut bytes: &[u8]) -> Vec<Self> {
        let mut entries = Vec::new();
        while let Some((head, rest)) = bytes.split_first_chunk::<ENTRY>() {
            let field = |at: usize| head[at..].first_chunk().copied().unwrap_or_default();
            let length = u32::from_le_bytes(field(ENTRY_NAME)) as usize;
            let number = head[ENTRY_NUMBER..].first_chunk().copied().unwrap_or_default();
            let Some((name, rest)) = rest.split_at_checked(length) else {
                break;
            };
            entries.push(Self {
                number: u64::from_le_bytes(number),
                kind: head[ENTRY_NAME + 4],
                name: name.to_vec(),
            });
            bytes = rest;
        }
        entries
    }

    /// Writes the entry; `next` is the number of the following entry.
    fn write(&self, number: u64, next: u64, into: &mut Vec<u8>) {
        into.extend(next.to_le_bytes());
        into.extend(number.to_le_bytes());
        into.extend(u32::try_from(self.name.len()).unwrap_or(u32::MAX).to_le_bytes());
        into.extend([self.kind, 0, 0, 0]);
        into.extend(&self.name);
    }
}

impl Shown {
    /// Returns the listed entries from `first` on, up to `size` bytes.
    fn entries(&mut self, first: usize, size: usize) -> Option<Vec<u8>> {
        let (fd, listing) = self.listing.take()?;
        let mut bytes = Vec::new();
        for (next, entry) in (1u64..).zip(&listing).skip(first) {
            let number = self.number(entry.number);
            entry.write(number, next, &mut bytes);
            if bytes.len() >= size {
                break;
            }
        }
        bytes.truncate(size);
        self.listing = Some((fd, listing));
        Some(bytes)
    }
}
