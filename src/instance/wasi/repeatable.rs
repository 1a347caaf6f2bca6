//! What files show of the host, in a run that must be repeatable: their numbers, their times, the
//! order in which directories list them, and how large a directory is.
//!
//! A file gets its number when the guest first sees it, and loses it with its last name. Its
//! times follow the guest's clock: that of a file says when it was last opened for writing, that
//! of any directory when a name was last made or removed, which is what Python's import system
//! looks for. What was there before the run is as old as the clock.

use std::collections::HashMap;
use std::time::Duration;

use wasmtime::Linker;
use wasmtime_wasi::p1::wasi_snapshot_preview1::{self as p1, WasiSnapshotPreview1};
use wiggle::GuestMemory;

use super::bytes::{offset, read_bytes, read_u32, write_bytes};
use super::{DIRECTORY, FAULT, MODULE, NOTDIR, OVERFLOW, SUCCESS, State, enter};
use crate::limits::MAX_COPIED;

// A file's status as WASI lays it out.
const STATUS: [u8; 64] = [0; 64];
const AFTER_STATUS: i32 = 64;
const NUMBER: i32 = 8;
const TYPE: i32 = 16;
const LINKS: i32 = 24;
const SIZE: i32 = 32;
const ACCESS_TIME: i32 = 40;
const CHANGE_TIME: i32 = 48;
const STATUS_TIME: i32 = 56;

// An entry of a directory as WASI lays it out, before its name.
const ENTRY: usize = 24;
const ENTRY_NUMBER: usize = 8;
const ENTRY_NAME: usize = 16;

// Flags of the functions that set times.
const ACCESSED: i32 = 1;
const ACCESSED_NOW: i32 = 2;
const MODIFIED: i32 = 4;
const MODIFIED_NOW: i32 = 8;

/// The first buffer for a directory's entries, and the largest.
const LISTING: i32 = 64 << 10;
const MAX_LISTING: i32 = 32 << 20;

/// What the guest knows of files.
pub(in crate::instance) struct Files {
    epoch_ns: u64,
    /// The time of the last change: no two have the same.
    latest_ns: u64,
    /// When names last changed.
    names_ns: u64,
    known: HashMap<u64, Known>,
    next: u64,
    /// Whether the guest gave a file a second name: until it does, no file has more than one. (The
    /// host may have linked its own.)
    has_links: bool,
    /// The directory that was listed last: a guest reads one in several calls.
    listing: Option<(i32, Vec<Entry>)>,
}

/// A file, by the host's number.
#[derive(Clone, Copy)]
struct Known {
    number: u64,
    accessed: u64,
    modified: u64,
}

struct Entry {
    number: u64,
    kind: u8,
    name: Vec<u8>,
}

/// Times for a file, as the guest sets them.
#[derive(Clone, Copy)]
pub(super) struct NewTimes {
    pub accessed: i64,
    pub modified: i64,
    pub flags: i32,
}

impl Files {
    pub(in crate::instance) fn new(epoch: Duration) -> Self {
        let epoch_ns = nanoseconds(epoch);
        Self {
            epoch_ns,
            latest_ns: epoch_ns,
            names_ns: epoch_ns,
            known: HashMap::new(),
            next: 1,
            has_links: false,
            listing: None,
        }
    }

    /// Notes that a file has a second name.
    pub(super) fn linked(&mut self) {
        self.has_links = true;
    }

    /// The time of a change that happens now. Floating point seconds tell microseconds apart.
    fn stamp(&mut self, now: Duration) -> u64 {
        self.latest_ns = nanoseconds(now).max(self.latest_ns.saturating_add(1_000));
        self.latest_ns
    }

    fn know(&mut self, host_number: u64) -> &mut Known {
        self.known.entry(host_number).or_insert_with(|| {
            let number = self.next;
            self.next += 1;
            Known {
                number,
                accessed: self.epoch_ns,
                modified: self.epoch_ns,
            }
        })
    }

    /// Rewrites the status of a file that the guest is about to read at `out`.
    fn rewrite(&mut self, memory: &mut GuestMemory<'_>, out: i32) -> Option<()> {
        let at = |field: i32| offset(out, field.cast_unsigned());
        let host_number = u64::from_le_bytes(read_bytes(memory, at(NUMBER)?)?);
        let links = u64::from_le_bytes(read_bytes(memory, at(LINKS)?)?);
        let [kind] = read_bytes(memory, at(TYPE)?)?;
        let mut known = match links {
            // It has no name any more, and the host may give its number to another file.
            0 => Known {
                number: u64::MAX,
                accessed: self.epoch_ns,
                modified: self.epoch_ns,
            },
            _ => *self.know(host_number),
        };
        if links > 1 && !self.has_links {
            write_bytes(memory, at(LINKS)?, &1u64.to_le_bytes())?;
        }
        if kind == DIRECTORY {
            write_bytes(memory, at(LINKS)?, &1u64.to_le_bytes())?;
            write_bytes(memory, at(SIZE)?, &0u64.to_le_bytes())?;
            if known.modified == self.epoch_ns {
                known.modified = self.names_ns;
            }
        }
        write_bytes(memory, at(NUMBER)?, &known.number.to_le_bytes())?;
        let times = [known.accessed, known.modified, self.epoch_ns];
        for (field, time) in [ACCESS_TIME, CHANGE_TIME, STATUS_TIME].into_iter().zip(times) {
            write_bytes(memory, at(field)?, &time.to_le_bytes())?;
        }
        Some(())
    }
}

impl State {
    /// Rewrites the status at `out`, in a run that must be repeatable.
    pub(super) fn show(&mut self, memory: &mut GuestMemory<'_>, out: i32, result: i32) -> i32 {
        match &mut self.files {
            Some(files) if result == SUCCESS => {
                files.rewrite(memory, out).map_or(FAULT, |()| SUCCESS)
            }
            _ => result,
        }
    }

    /// Notes that a name was made, changed or removed.
    pub(super) fn names_changed(&mut self, result: i32) {
        if self.files.is_none() || result != SUCCESS {
            return;
        }
        let now = self.now(true);
        if let Some(files) = &mut self.files {
            files.names_ns = files.stamp(now);
        }
    }

    /// Notes that a file was opened for writing.
    pub(super) async fn written(&mut self, fd: i32) -> wasmtime::Result<()> {
        if self.files.is_some()
            && let Some(status) = self.status(fd).await?
        {
            let now = self.now(true);
            if let Some(files) = &mut self.files {
                let stamp = files.stamp(now);
                files.know(status.number).modified = stamp;
            }
        }
        Ok(())
    }

    /// The host's number of a file that is about to lose its last name.
    pub(super) async fn last_name(
        &mut self,
        path: Option<Vec<u8>>,
        fd: i32,
    ) -> wasmtime::Result<Option<u64>> {
        let (Some(_), Some(path)) = (&self.files, path) else {
            return Ok(None);
        };
        let status = self.status_at(fd, 0, path).await?;
        Ok(status.filter(|s| s.is_last).map(|s| s.number))
    }

    /// Forgets a file that has lost its last name.
    pub(super) fn lost(&mut self, host_number: Option<u64>, result: i32) {
        if let (Some(files), Some(number), SUCCESS) = (&mut self.files, host_number, result) {
            files.known.remove(&number);
        }
    }

    /// Keeps the times that the guest has set for a file.
    pub(super) async fn keep_times(
        &mut self,
        fd: i32,
        look: i32,
        path: Option<Vec<u8>>,
        times: NewTimes,
    ) -> wasmtime::Result<()> {
        if self.files.is_none() {
            return Ok(());
        }
        let status = match path {
            Some(path) => self.status_at(fd, look, path).await?,
            None => self.status(fd).await?,
        };
        let now = self.now(true);
        if let (Some(files), Some(status)) = (&mut self.files, status) {
            let now = files.stamp(now);
            let known = files.know(status.number);
            let set = |to: &mut u64, given: i64, as_given: i32, as_now: i32| {
                if times.flags & as_now != 0 {
                    *to = now;
                } else if times.flags & as_given != 0 {
                    *to = given.cast_unsigned();
                }
            };
            set(&mut known.accessed, times.accessed, ACCESSED, ACCESSED_NOW);
            set(&mut known.modified, times.modified, MODIFIED, MODIFIED_NOW);
        }
        Ok(())
    }

    /// A file's status, by a path in the host's memory.
    async fn status_at(
        &mut self,
        fd: i32,
        look: i32,
        path: Vec<u8>,
    ) -> wasmtime::Result<Option<Status>> {
        let mut buffer = STATUS.to_vec();
        let Ok(length) = i32::try_from(path.len()) else {
            return Ok(None);
        };
        buffer.extend(path);
        let mut memory = GuestMemory::Unshared(&mut buffer);
        let (path, out) = (AFTER_STATUS, 0);
        let result =
            p1::path_filestat_get(&mut self.wasi, &mut memory, fd, look, path, length, out).await?;
        Ok(Status::read(&memory, result))
    }

    async fn status(&mut self, fd: i32) -> wasmtime::Result<Option<Status>> {
        let mut buffer = STATUS;
        let mut memory = GuestMemory::Unshared(&mut buffer);
        let result = p1::fd_filestat_get(&mut self.wasi, &mut memory, fd, 0).await?;
        Ok(Status::read(&memory, result))
    }

    /// Lists a directory by name; an error number where the host has none.
    async fn list(&mut self, fd: i32) -> wasmtime::Result<Result<Vec<Entry>, i32>> {
        let mut size = LISTING;
        while size <= MAX_LISTING {
            // The length of what was read stands behind it.
            let mut buffer = vec![0; size.cast_unsigned() as usize + 4];
            let mut memory = GuestMemory::Unshared(&mut buffer);
            self.wasi.set_hostcall_fuel(MAX_COPIED);
            let result = p1::fd_readdir(&mut self.wasi, &mut memory, fd, 0, size, 0, size).await?;
            if result != SUCCESS {
                return Ok(Err(result));
            }
            let used = read_u32(&memory, size).unwrap_or_default();
            if used < size.cast_unsigned() {
                let mut entries = Entry::read_all(&buffer[..used as usize]);
                // `.` and `..` come first, as everywhere.
                let dots = entries.len().min(2);
                entries[dots..].sort_by(|a, b| a.name.cmp(&b.name));
                return Ok(Ok(entries));
            }
            size *= 8;
        }
        Ok(Err(OVERFLOW))
    }

    fn listed(&mut self, fd: i32, entries: Vec<Entry>) {
        if let Some(files) = &mut self.files {
            files.listing = Some((fd, entries));
        }
    }

    /// Writes the entries of a directory from a cookie on, and how many bytes they are.
    fn hand_out(
        &mut self,
        memory: &mut GuestMemory<'_>,
        (fd, cookie): (i32, u64),
        (buffer, size): (i32, i32),
        out: i32,
    ) -> Option<()> {
        let size = size.cast_unsigned() as usize;
        let bytes = self.files.as_mut()?.entries(fd, cookie, size)?;
        write_bytes(memory, buffer, &bytes)?;
        write_bytes(memory, out, &u32::try_from(bytes.len()).ok()?.to_le_bytes())
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What of a status is used here.
struct Status {
    number: u64,
    is_last: bool,
}

impl Status {
    fn read(memory: &GuestMemory<'_>, result: i32) -> Option<Self> {
        let [kind] = read_bytes(memory, TYPE)?;
        let links = u64::from_le_bytes(read_bytes(memory, LINKS)?);
        let number = u64::from_le_bytes(read_bytes(memory, NUMBER)?);
        (result == SUCCESS).then_some(Self {
            number,
            is_last: links <= 1 || kind == DIRECTORY,
        })
    }
}

impl Entry {
    /// Takes whole entries apart.
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

    /// Writes the entry as the one before the one that is number `next`.
    fn write(&self, number: u64, next: u64, into: &mut Vec<u8>) {
        into.extend(next.to_le_bytes());
        into.extend(number.to_le_bytes());
        into.extend(u32::try_from(self.name.len()).unwrap_or(u32::MAX).to_le_bytes());
        into.extend([self.kind, 0, 0, 0]);
        into.extend(&self.name);
    }
}

impl Files {
    /// The entries from `cookie` on, as many bytes as fit.
    fn entries(&mut self, fd: i32, cookie: u64, size: usize) -> Option<Vec<u8>> {
        let (_, listing) = self.listing.take_if(|(listed, _)| *listed == fd)?;
        let mut bytes = Vec::new();
        let first = usize::try_from(cookie).unwrap_or(usize::MAX);
        for (next, entry) in (1u64..).zip(&listing).skip(first) {
            let number = self.know(entry.number).number;
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

/// Adds the functions that are another's matter in a run that need not be repeatable.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(MODULE, "fd_filestat_get", |mut caller, (fd, out): (i32, i32)| {
        Box::new(async move {
            let (mut memory, state) = enter(&mut caller).await?;
            if let Some(done) = state.open_device_status(&mut memory, fd, out) {
                return Ok(done);
            }
            let result = p1::fd_filestat_get(&mut state.wasi, &mut memory, fd, out).await?;
            Ok(state.show(&mut memory, out, result))
        })
    })?;
    linker.func_wrap_async(
        MODULE,
        "fd_readdir",
        |mut caller, (fd, buffer, size, cookie, out): (i32, i32, i32, i64, i32)| {
            Box::new(async move {
                let (mut memory, state) = enter(&mut caller).await?;
                if state.devices.contains_key(&fd) {
                    return Ok(NOTDIR);
                }
                let Some(files) = &mut state.files else {
                    return p1::fd_readdir(
                        &mut state.wasi,
                        &mut memory,
                        fd,
                        buffer,
                        size,
                        cookie,
                        out,
                    )
                    .await;
                };
                let is_listed = files.listing.as_ref().is_some_and(|(listed, _)| *listed == fd);
                if cookie == 0 || !is_listed {
                    match state.list(fd).await? {
                        Ok(entries) => state.listed(fd, entries),
                        Err(result) => return Ok(result),
                    }
                }
                Ok(state
                    .hand_out(&mut memory, (fd, cookie.cast_unsigned()), (buffer, size), out)
                    .map_or(FAULT, |()| SUCCESS))
            })
        },
    )?;
    Ok(())
}
