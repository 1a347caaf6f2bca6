//! Open files of a guest: written down with its memory, and opened again beside it.
//!
//! The guest knows its files by number only. What stands behind a number is the host's, and is
//! found again by name. A file without a name is copied to the spool of the sessions, as the files of
//! their directories are: the host's memory never holds more of it than one step of the copy.

use std::collections::HashMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use wasmtime_wasi::p1::wasi_snapshot_preview1::{self as p1, WasiSnapshotPreview1};
use wiggle::GuestMemory;

use super::roots::{ROOT_FD, TEMPORARY_FD, TEMPORARY_PATH, WORKSPACE_FD, WORKSPACE_PATH};
use super::wasi::{DIRECTORY, Device, SUCCESS};
use super::{InstanceError, State, roots};
use crate::hex;
use crate::limits::MAX_COPIED;
use crate::workspace::{Spool, StoredFile};

/// One open file or directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Descriptor {
    /// The number by which the guest knows it.
    pub number: i32,
    /// Its absolute path in the guest; of a file without a name, that of its directory.
    pub path: String,
    pub is_directory: bool,
    /// The guest's rights on it, and its flags, as WASI lays them out.
    pub rights: u64,
    pub flags: u16,
    /// Bytes from its start.
    pub position: u64,
    /// A copy of a file that has no name any more.
    #[serde(skip)]
    pub nameless: Option<StoredFile>,
}

impl Descriptor {
    /// Bytes without a name that are not kept with `other`.
    pub(crate) fn beyond(&self, other: &[Self]) -> u64 {
        let own = self.nameless.as_ref();
        let theirs = other.iter().filter_map(|other| other.nameless.as_ref());
        own.filter(|own| !theirs.clone().any(|theirs| own.address() == theirs.address()))
            .map_or(0, |own| own.size)
    }
}

// Flags of `path_open`, rights, and where `fd_seek` counts from.
const CREATE_NEW: i32 = 1 | 4;
const OPEN_DIRECTORY: i32 = 2;
const FOLLOW_LINKS: i32 = 1;
const READ_AND_WRITE: i64 = (1 << 1) | (1 << 6);
const FROM_START: i32 = 0;

/// Bytes that one call moves.
const STEP: usize = 256 << 10;
/// Where in the scratch memory the addresses, the results and the data are.
const RESULT: i32 = 64;
const DATA: i32 = 256;

/// A piece of memory in which calls of the system interface find their arguments.
struct Scratch(Vec<u8>);

impl Scratch {
    fn new(data: &[u8]) -> Self {
        let mut bytes = vec![0; DATA as usize];
        bytes.extend_from_slice(data);
        // One buffer: its address and its length.
        bytes[..4].copy_from_slice(&DATA.to_le_bytes());
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        Self(bytes)
    }

    fn memory(&mut self) -> GuestMemory<'_> {
        GuestMemory::Unshared(&mut self.0)
    }

    fn word(&self, at: usize) -> u64 {
        let at = RESULT as usize + at;
        self.0[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
    }

    fn data(&self) -> &[u8] {
        &self.0[DATA as usize..]
    }
}

/// What is found once for all open files: a guest may open one two hundred times.
struct Known<'a> {
    /// A name of each file, by its number, once one had to be looked for.
    names: Option<HashMap<u64, String>>,
    /// Copies of the files without a name, by their numbers.
    copies: HashMap<u64, StoredFile>,
    /// The files that were open when the guest was last kept.
    before: &'a [Descriptor],
    spool: &'a Spool,
}

impl State {
    /// The absolute path of a name below a descriptor, as the guest sees it.
    pub(super) fn guest_path(&self, number: i32, name: &str) -> String {
        let given = || roots::path_of(number, &self.mounts);
        let base = self.quota.path(number).or_else(given).unwrap_or("/");
        format!("{}/{name}", base.trim_end_matches('/'))
    }

    /// Writes down every open file. It blocks.
    pub(super) async fn descriptors(
        &mut self,
        before: &[Descriptor],
        spool: &Spool,
    ) -> Result<Vec<Descriptor>, InstanceError> {
        let mut known = Known {
            names: None,
            copies: HashMap::new(),
            before,
            spool,
        };
        let mut found = Vec::new();
        for number in self.quota.open_descriptors() {
            self.wasi.set_hostcall_fuel(MAX_COPIED);
            found.push(self.describe(number, &mut known).await?);
        }
        Ok(found)
    }

    async fn describe(
        &mut self,
        number: i32,
        known: &mut Known<'_>,
    ) -> Result<Descriptor, InstanceError> {
        if let Some(device) = self.devices.get(&number) {
            return Ok(Descriptor {
                number,
                path: device.path().to_owned(),
                is_directory: false,
                rights: device.rights(),
                flags: 0,
                position: 0,
                nameless: None,
            });
        }
        let mut scratch = Scratch::new(&[]);
        let status = p1::fd_fdstat_get(&mut self.wasi, &mut scratch.memory(), number, RESULT).await;
        done("look at an open file", status)?;
        let is_directory = scratch.0[RESULT as usize] == DIRECTORY;
        let flags = u16::from_le_bytes([scratch.0[66], scratch.0[67]]);
        let rights = scratch.word(8);
        let mut position = 0;
        if !is_directory {
            let told = p1::fd_tell(&mut self.wasi, &mut scratch.memory(), number, RESULT);
            done("look at an open file", told)?;
            position = scratch.word(0);
        }
        let status =
            p1::fd_filestat_get(&mut self.wasi, &mut scratch.memory(), number, RESULT).await;
        done("look at an open file", status)?;
        let (file, names, size) = (scratch.word(8), scratch.word(24), scratch.word(32));
        let opened_as = self.quota.path(number).unwrap_or("/").to_owned();
        let name = match names {
            0 => None,
            _ => self.name_of(&opened_as, file, known).await,
        };
        let (path, nameless) = match name {
            Some(path) => (path, None),
            None if is_directory => (TEMPORARY_PATH.into(), None),
            None => {
                let copy = match known.copies.get(&file) {
                    Some(copy) => copy.clone(),
                    None => self.copy(number, size, known).await?,
                };
                known.copies.insert(file, copy.clone());
                (TEMPORARY_PATH.into(), Some(copy))
            }
        };
        Ok(Descriptor {
            number,
            path,
            is_directory,
            rights,
            flags,
            position,
            nameless,
        })
    }

    /// A name of the file with that number: the one it was opened by, if it still is one.
    async fn name_of(
        &mut self,
        opened_as: &str,
        file: u64,
        known: &mut Known<'_>,
    ) -> Option<String> {
        if self.number_of(opened_as).await == Some(file) {
            return Some(opened_as.to_owned());
        }
        if known.names.is_none() {
            known.names = Some(self.names().await);
        }
        known.names.as_ref()?.get(&file).cloned()
    }

    /// A name of each file in the guest's directories, by the file's number.
    async fn names(&mut self) -> HashMap<u64, String> {
        let mut names = HashMap::new();
        for (fd, root) in [(WORKSPACE_FD, WORKSPACE_PATH), (TEMPORARY_FD, TEMPORARY_PATH)] {
            let tree = self.quota.root(fd);
            for name in tree.and_then(|tree| tree.paths().ok()).unwrap_or_default() {
                let path = format!("{root}/{name}");
                self.wasi.set_hostcall_fuel(MAX_COPIED);
                if let Some(file) = self.number_of(&path).await {
                    names.entry(file).or_insert(path);
                }
            }
        }
        names
    }

    /// The number of the file at a path, as the system interface gives it.
    async fn number_of(&mut self, path: &str) -> Option<u64> {
        let (fd, name) = roots::split(path, &self.mounts);
        let mut scratch = Scratch::new(name.as_bytes());
        let length = i32::try_from(name.len()).ok()?;
        let found = p1::path_filestat_get(
            &mut self.wasi,
            &mut scratch.memory(),
            fd,
            FOLLOW_LINKS,
            DATA,
            length,
            RESULT,
        )
        .await;
        matches!(found, Ok(SUCCESS)).then(|| scratch.word(8))
    }

    /// A copy of an open file: the one of the last state if the file has not changed since.
    async fn copy(
        &mut self,
        number: i32,
        size: u64,
        known: &Known<'_>,
    ) -> Result<StoredFile, InstanceError> {
        let failed = |e: std::io::Error| InstanceError::start(e.into());
        let before = known.before.iter().find(|file| file.number == number);
        if let Some(before) = before.and_then(|file| file.nameless.as_ref())
            && before.size == size
            && self.is_same(number, before).await?
        {
            return Ok(before.clone());
        }
        let copy = known.spool.prepare(size).map_err(failed)?;
        let mut at = 0;
        while at < size {
            let part = self.read_part(number, at, size).await?;
            if part.is_empty() {
                break;
            }
            copy.write(at, &part).map_err(failed)?;
            at += part.len() as u64;
        }
        Ok(copy.finish(SystemTime::UNIX_EPOCH))
    }

    /// Whether an open file, which is as long as `copy`, has the same bytes.
    async fn is_same(&mut self, number: i32, copy: &StoredFile) -> Result<bool, InstanceError> {
        let mut at = 0;
        while at < copy.size {
            let part = self.read_part(number, at, copy.size).await?;
            let theirs = copy.read_range(at, part.len() as u64);
            if part.is_empty() || theirs.map_err(|e| InstanceError::start(e.into()))? != part {
                return Ok(false);
            }
            at += part.len() as u64;
        }
        Ok(true)
    }

    /// Some bytes of an open file from `at` on, before `end`; empty past the end of the file.
    async fn read_part(
        &mut self,
        number: i32,
        at: u64,
        end: u64,
    ) -> Result<Vec<u8>, InstanceError> {
        let length = end.saturating_sub(at).min(STEP as u64) as usize;
        let mut scratch = Scratch::new(&vec![0; length]);
        self.wasi.set_hostcall_fuel(MAX_COPIED);
        let at = at.cast_signed();
        let read =
            p1::fd_pread(&mut self.wasi, &mut scratch.memory(), number, 0, 1, at, RESULT).await;
        done("read an open file", read)?;
        let length = (scratch.word(0) & 0xffff_ffff) as usize;
        Ok(scratch.data()[..length].to_vec())
    }

    /// Opens files again, under their numbers. It blocks.
    ///
    /// A number is given to what is opened next: the highest that is free, or else the one behind the
    /// last. So files are opened in the order of their numbers, with a directory in each gap, and no
    /// number beyond the last becomes free. A guest that was restored a thousand times would get
    /// higher ones each time, and its host would hold as many directories open.
    pub(super) async fn reopen(&mut self, files: &[Descriptor]) -> Result<(), InstanceError> {
        let Some(last) = files.iter().map(|file| file.number).max() else {
            return Ok(());
        };
        let mut wanted: HashMap<i32, &Descriptor> =
            files.iter().map(|file| (file.number, file)).collect();
        let (mut gaps, mut named) = (Vec::new(), HashMap::new());
        let mut next = -1;
        while next < last {
            self.wasi.set_hostcall_fuel(MAX_COPIED);
            next = self.open("/", OPEN_DIRECTORY, 0, 0).await?;
            let Some(file) = wanted.remove(&next) else {
                gaps.push(next);
                continue;
            };
            self.close(next).await?;
            if self.reopen_one(file, &mut named).await? != next {
                return Err(InstanceError::start(wasmtime::format_err!(
                    "the system interface numbers files in another way"
                )));
            }
            self.reopened(file);
        }
        // A guest may have closed a directory that it was given, and have a file in its place. All
        // of those are opened before the first takes its number, which others may be opened through.
        let mut displacing = Vec::new();
        for file in wanted.into_values() {
            if let Some(gap) = gaps.pop() {
                self.close(gap).await?;
            }
            displacing.push((file, self.reopen_one(file, &mut named).await?));
        }
        for path in named.values() {
            self.remove(path).await?;
        }
        for (file, opened) in displacing {
            let mut scratch = Scratch::new(&[]);
            let moved =
                p1::fd_renumber(&mut self.wasi, &mut scratch.memory(), opened, file.number).await;
            done("number an open file", moved)?;
            self.reopened(file);
        }
        for gap in gaps {
            self.close(gap).await?;
        }
        Ok(())
    }

    /// Notes that a file has its number again.
    fn reopened(&mut self, file: &Descriptor) {
        let depth = self.opened_depth(super::quota::Depth::of(&file.path), &file.path);
        self.quota.opened(file.number, depth, file.path.clone());
        if let Some(device) = self.device(file) {
            self.devices.insert(file.number, device);
        }
    }

    async fn close(&mut self, fd: i32) -> Result<(), InstanceError> {
        let mut scratch = Scratch::new(&[]);
        done("close a file", p1::fd_close(&mut self.wasi, &mut scratch.memory(), fd).await)
    }

    /// The device that was open; one that is mounted is a file like others.
    fn device(&self, file: &Descriptor) -> Option<Device> {
        let (root, _) = roots::split(&file.path, &self.mounts);
        let device = Device::opened(&file.path, file.rights)?;
        (root == ROOT_FD && file.nameless.is_none() && !file.is_directory).then_some(device)
    }

    /// Opens one file; `named` are the names, for now, of files that are to have none, by what is
    /// in them.
    async fn reopen_one(
        &mut self,
        file: &Descriptor,
        named: &mut HashMap<usize, String>,
    ) -> Result<i32, InstanceError> {
        self.wasi.set_hostcall_fuel(MAX_COPIED);
        if self.device(file).is_some() {
            return self.open("/", OPEN_DIRECTORY, 0, 0).await;
        }
        let rights = file.rights.cast_signed();
        let flags = i32::from(file.flags);
        let opened = if let Some(copy) = &file.nameless {
            let key = copy.address();
            let path = match named.get(&key) {
                Some(path) => path.clone(),
                None => self.create(copy).await?,
            };
            named.insert(key, path.clone());
            self.open(&path, 0, rights, flags).await?
        } else {
            let how = if file.is_directory { OPEN_DIRECTORY } else { 0 };
            self.open(&file.path, how, rights, flags).await?
        };
        if !file.is_directory {
            let position = file.position.cast_signed();
            let mut scratch = Scratch::new(&[]);
            let sought = p1::fd_seek(
                &mut self.wasi,
                &mut scratch.memory(),
                opened,
                position,
                FROM_START,
                RESULT,
            )
            .await;
            done("find the place in an open file", sought)?;
        }
        Ok(opened)
    }

    /// Makes a file with these bytes, under a name that no guest can have taken.
    async fn create(&mut self, copy: &StoredFile) -> Result<String, InstanceError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|e| InstanceError::start(e.into()))?;
        let path = format!("{TEMPORARY_PATH}/.belljar-{}", hex::encode(&random));
        let writer = self.open(&path, CREATE_NEW, READ_AND_WRITE, 0).await?;
        let mut written = 0;
        while written < copy.size {
            let part = copy.read_range(written, STEP as u64);
            let mut scratch = Scratch::new(&part.map_err(|e| InstanceError::start(e.into()))?);
            self.wasi.set_hostcall_fuel(MAX_COPIED);
            let at = written.cast_signed();
            let wrote =
                p1::fd_pwrite(&mut self.wasi, &mut scratch.memory(), writer, 0, 1, at, RESULT)
                    .await;
            done("fill a file", wrote)?;
            match scratch.word(0) & 0xffff_ffff {
                // The copy is shorter than it was.
                0 => {
                    let eof = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                    return Err(InstanceError::start(eof.into()));
                }
                length => written += length,
            }
        }
        self.close(writer).await?;
        Ok(path)
    }

    /// Takes a file's name away.
    async fn remove(&mut self, path: &str) -> Result<(), InstanceError> {
        let (fd, name) = roots::split(path, &self.mounts);
        let mut scratch = Scratch::new(name.as_bytes());
        let length = i32::try_from(name.len()).unwrap_or(i32::MAX);
        let removed =
            p1::path_unlink_file(&mut self.wasi, &mut scratch.memory(), fd, DATA, length).await;
        done("take a file's name", removed)
    }

    async fn open(
        &mut self,
        path: &str,
        how: i32,
        rights: i64,
        flags: i32,
    ) -> Result<i32, InstanceError> {
        let (fd, name) = roots::split(path, &self.mounts);
        let mut scratch = Scratch::new(name.as_bytes());
        let opened = p1::path_open(
            &mut self.wasi,
            &mut scratch.memory(),
            fd,
            FOLLOW_LINKS,
            DATA,
            i32::try_from(name.len()).unwrap_or(i32::MAX),
            how,
            rights,
            rights,
            flags,
            RESULT,
        )
        .await;
        match opened {
            Ok(SUCCESS) => Ok((scratch.word(0) as u32).cast_signed()),
            Ok(_) => Err(InstanceError::Reopen { path: path.into() }),
            Err(error) => Err(InstanceError::start(error)),
        }
    }
}

fn done(action: &'static str, result: wasmtime::Result<i32>) -> Result<(), InstanceError> {
    match result {
        Ok(SUCCESS) => Ok(()),
        Ok(errno) => Err(InstanceError::start(wasmtime::format_err!(
            "the system interface failed to {action}: error {errno}"
        ))),
        Err(error) => Err(InstanceError::start(error)),
    }
}
