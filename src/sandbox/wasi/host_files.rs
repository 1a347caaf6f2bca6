//! What a guest has open of the host: files of mounted directories, only to be read.
//! wasmtime-wasi serves them.
//!
//! The guest knows them by number only. What stands behind a number is found again by its path when the
//! guest is brought back to life.

use std::collections::HashMap;

use belljar_files::{FdFlags, OpenFile, OpenOn};
use serde::{Deserialize, Serialize};
use wasmtime_wasi::p1::wasi_snapshot_preview1::{self as p1, WasiSnapshotPreview1};

use super::guest_memory::read_u32;
use super::{FAULT, MFILE, SUCCESS, State, guest};
use crate::limits::MAX_COPIED;
use crate::sandbox::InstanceError;
use crate::sandbox::preopens::{STREAMS, place};

/// One open file or directory, as it is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// The directories of the host that a guest sees, and what it opened there.
#[derive(Debug)]
pub(in crate::sandbox) struct Hosts {
    /// Their absolute paths in the guest, in the order of the numbers that wasmtime-wasi has them under.
    places: Vec<String>,
    /// The absolute path and the rights of what was opened, by the number that wasmtime-wasi gave it.
    opened: HashMap<u64, (String, i64)>,
}

impl Hosts {
    /// The directories that are mounted at these paths.
    pub(in crate::sandbox) fn new(places: Vec<String>) -> Self {
        Self {
            places,
            opened: HashMap::new(),
        }
    }

    /// Whether something is open beyond what was given.
    pub(in crate::sandbox) fn has_open(&self) -> bool {
        !self.opened.is_empty()
    }

    /// What a path below a directory leads into: that directory, or another that is mounted in it.
    pub(super) fn deepest(&self, number: u64, rest: String) -> (u64, String) {
        let above = usize::try_from(number).ok().and_then(|number| {
            self.places.get(number.checked_sub(usize::try_from(STREAMS).ok()?)?)
        });
        let path = above.map(|above| format!("{above}/{rest}"));
        let places = self.places.iter().map(String::as_str);
        match path.as_deref().and_then(|path| place(places, path)) {
            Some((deeper, rest)) if deeper != number => (deeper, rest.to_owned()),
            _ => (number, rest),
        }
    }

    /// The absolute path of a directory, by its number.
    fn path(&self, number: i32) -> Option<&str> {
        let number = u64::try_from(number).ok()?;
        let given = || self.places.get(usize::try_from(number.checked_sub(STREAMS)?).ok()?);
        let opened = self.opened.get(&number).map(|(path, _)| path);
        opened.or_else(given).map(String::as_str)
    }
}

// Flags of `path_open`, and where `fd_seek` counts from.
const OPEN_DIRECTORY: i32 = 2;
const FOLLOW_LINKS: i32 = 1;
const FROM_START: i32 = 0;
const DIRECTORY: u8 = 3;

/// Room for a result in memory of the host's, before a path.
pub(super) const RESULT: usize = 64;
/// Where a path stands behind it.
pub(super) const RESULT_END: i32 = 64;

impl State {
    /// Gives the guest a number for what was opened below a directory of the host.
    pub(super) fn opened_host(
        &mut self,
        number: u32,
        (dir, name): (i32, &str),
        rights: i64,
    ) -> Result<u32, i32> {
        let fd = self.files.open_foreign(number.into(), false).map_err(|_| MFILE)?;
        let path = format!("{}/{name}", self.hosts.path(dir).unwrap_or_default());
        self.hosts.opened.insert(number.into(), (path, rights));
        Ok(fd)
    }

    /// Opens something below a directory that wasmtime-wasi has, and returns its number there.
    pub(super) async fn wasi_open(
        &mut self,
        dir: i32,
        path: &str,
        (look, oflags, rights, flags): (i32, i32, i64, i32),
    ) -> wasmtime::Result<Result<u32, i32>> {
        let (mut scratch, length) = scratch(path);
        self.wasi.set_hostcall_fuel(MAX_COPIED);
        let result = p1::path_open(
            &mut self.wasi,
            &mut guest(&mut scratch),
            dir,
            look,
            RESULT_END,
            length,
            oflags,
            rights,
            rights,
            flags,
            0,
        )
        .await?;
        Ok(if result == SUCCESS {
            read_u32(&scratch, 0)
        } else {
            Err(result)
        })
    }

    /// Closes what wasmtime-wasi has under this number.
    pub(super) async fn close_host(&mut self, tag: u64) -> wasmtime::Result<i32> {
        let Ok(number) = i32::try_from(tag) else {
            return Ok(FAULT);
        };
        // What was given is open for as long as the guest lives: its number tells what it is.
        if self.hosts.opened.remove(&tag).is_none() {
            return Ok(SUCCESS);
        }
        p1::fd_close(&mut self.wasi, &mut guest(&mut []), number).await
    }

    /// Writes down what the guest has open of the host.
    pub(in crate::sandbox) async fn host_files(
        &mut self,
    ) -> Result<Vec<Descriptor>, InstanceError> {
        let mut found = Vec::new();
        let foreign = self.files.open_files().filter_map(|(number, open)| match open.on {
            OpenOn::Foreign(tag) => Some((number, tag)),
            OpenOn::Node(_) => None,
        });
        let foreign: Vec<(u32, u64)> = foreign.collect();
        for (number, tag) in foreign {
            let Some((path, rights)) = self.hosts.opened.get(&tag).cloned() else {
                continue;
            };
            let host = i32::try_from(tag).unwrap_or(i32::MAX);
            self.wasi.set_hostcall_fuel(MAX_COPIED);
            let mut scratch = [0; RESULT];
            let status = p1::fd_fdstat_get(&mut self.wasi, &mut guest(&mut scratch), host, 0).await;
            done("look at an open file", status)?;
            let is_directory = scratch[0] == DIRECTORY;
            let flags = u16::from_le_bytes([scratch[2], scratch[3]]);
            let mut position = 0;
            if !is_directory {
                let told = p1::fd_tell(&mut self.wasi, &mut guest(&mut scratch), host, 0);
                done("look at an open file", told)?;
                position = scratch.first_chunk().copied().map_or(0, u64::from_le_bytes);
            }
            found.push(Descriptor {
                number: number.cast_signed(),
                path,
                is_directory,
                rights: rights.cast_unsigned(),
                flags,
                position,
            });
        }
        Ok(found)
    }

    /// Opens files of the host again, under the guest's numbers. It blocks.
    pub(in crate::sandbox) async fn reopen_hosts(
        &mut self,
        files: &[Descriptor],
    ) -> Result<(), InstanceError> {
        for file in files {
            let tag = self.reopen_host(file).await?;
            let open = OpenFile {
                on: OpenOn::Foreign(tag),
                read: true,
                write: false,
                flags: FdFlags(file.flags),
                offset: 0,
                given: false,
            };
            let reopened = self.files.reopen(file.number.cast_unsigned(), &open);
            reopened.map_err(|_| unopened(file))?;
        }
        Ok(())
    }

    async fn reopen_host(&mut self, file: &Descriptor) -> Result<u64, InstanceError> {
        let places = self.hosts.places.iter().map(String::as_str);
        let (dir, path) = place(places, &file.path).ok_or_else(|| unopened(file))?;
        let dir = i32::try_from(dir).map_err(|_| unopened(file))?;
        let path = path.to_owned();
        let how = if file.is_directory { OPEN_DIRECTORY } else { 0 };
        let rights = file.rights.cast_signed();
        let how = (FOLLOW_LINKS, how, rights, i32::from(file.flags));
        let opened = self.wasi_open(dir, &path, how).await.map_err(InstanceError::start)?;
        let number = opened.map_err(|_| unopened(file))?;
        let mut scratch = [0; RESULT];
        if !file.is_directory {
            let to = file.position.cast_signed();
            let memory = &mut guest(&mut scratch);
            let sought =
                p1::fd_seek(&mut self.wasi, memory, number.cast_signed(), to, FROM_START, 0).await;
            done("find the place in an open file", sought)?;
        }
        let opened = (file.path.clone(), file.rights.cast_signed());
        self.hosts.opened.insert(number.into(), opened);
        Ok(number.into())
    }
}

/// Memory with room for a result, and a path behind it. A directory itself is a dot there.
pub(super) fn scratch(path: &str) -> (Vec<u8>, i32) {
    let path = if path.is_empty() { "." } else { path };
    let mut scratch = vec![0; RESULT];
    scratch.extend_from_slice(path.as_bytes());
    (scratch, i32::try_from(path.len()).unwrap_or(i32::MAX))
}

fn unopened(file: &Descriptor) -> InstanceError {
    InstanceError::Reopen {
        path: file.path.clone(),
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
