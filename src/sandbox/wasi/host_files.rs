//! A guest's open files in mounts, which are read-only. wasmtime-wasi serves them.
//!
//! The guest knows them by number only. When a guest is resumed, they are reopened by path.

use std::collections::HashMap;

use belljar_files::{FdFlags, OpenFile, OpenOn};
use serde::{Deserialize, Serialize};
use wasmtime_wasi::p1::wasi_snapshot_preview1::{self as p1, WasiSnapshotPreview1};

use super::guest_memory::read_u32;
use super::{FAULT, INVAL, MFILE, SUCCESS, State, guest};
use crate::limits::MAX_COPIED;
use crate::sandbox::InstanceError;
use crate::sandbox::preopens::{STREAMS, place};
use crate::util::host_names::are_host_names;

/// A saved open file or directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Descriptor {
    /// The guest's descriptor number.
    pub number: i32,
    /// Absolute path in the guest; for a nameless file, the path of its directory.
    pub path: String,
    pub is_directory: bool,
    /// The guest's rights and flags, as in WASI.
    pub rights: u64,
    pub flags: u16,
    /// Position in the file, in bytes.
    pub position: u64,
}

/// The mounts of a guest, and the files that it opened in them.
#[derive(Debug)]
pub(in crate::sandbox) struct Hosts {
    /// Absolute paths of the mounts in the guest, in the order of their wasmtime-wasi descriptors.
    places: Vec<String>,
    /// Absolute path and rights of each open file, by its wasmtime-wasi descriptor.
    opened: HashMap<u64, (String, i64)>,
}

impl Hosts {
    /// Creates the table for mounts at these paths.
    pub(in crate::sandbox) fn new(places: Vec<String>) -> Self {
        Self {
            places,
            opened: HashMap::new(),
        }
    }

    /// Whether files are open other than the mounts themselves.
    pub(in crate::sandbox) fn has_open(&self) -> bool {
        !self.opened.is_empty()
    }

    /// Returns the innermost mount that contains a path below a directory, with the remaining path.
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

    /// Returns the absolute path of a directory by its number.
    fn path(&self, number: i32) -> Option<&str> {
        let number = u64::try_from(number).ok()?;
        let given = || self.places.get(usize::try_from(number.checked_sub(STREAMS)?).ok()?);
        let opened = self.opened.get(&number).map(|(path, _)| path);
        opened.or_else(given).map(String::as_str)
    }
}

// Flags of `path_open`, and an origin of `fd_seek`.
const OPEN_DIRECTORY: i32 = 2;
const FOLLOW_LINKS: i32 = 1;
const FROM_START: i32 = 0;
const DIRECTORY: u8 = 3;

/// Room for a result in scratch memory, before a path.
pub(super) const RESULT: usize = 64;
/// Address of the path after it.
pub(super) const RESULT_END: i32 = 64;

impl State {
    /// Assigns a guest descriptor to a file opened in a mount.
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

    /// Opens a file below a wasmtime-wasi directory, and returns its descriptor there.
    pub(super) async fn wasi_open(
        &mut self,
        dir: i32,
        path: &str,
        (look, oflags, rights, flags): (i32, i32, i64, i32),
    ) -> wasmtime::Result<Result<u32, i32>> {
        let Some((mut scratch, length)) = scratch(path) else {
            return Ok(Err(INVAL));
        };
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

    /// Closes a wasmtime-wasi descriptor.
    pub(super) async fn close_host(&mut self, tag: u64) -> wasmtime::Result<i32> {
        let Ok(number) = i32::try_from(tag) else {
            return Ok(FAULT);
        };
        // Mounts stay open for the guest's whole life, since their number identifies them.
        if self.hosts.opened.remove(&tag).is_none() {
            return Ok(SUCCESS);
        }
        p1::fd_close(&mut self.wasi, &mut guest(&mut []), number).await
    }

    /// Saves the guest's open host files.
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

    /// Reopens host files under the guest's descriptor numbers. Blocks.
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

/// Returns memory with room for a result, followed by a path, unless the path could leave its
/// directory on this system. The directory itself is `.`.
pub(super) fn scratch(path: &str) -> Option<(Vec<u8>, i32)> {
    if !are_host_names(path) {
        return None;
    }
    let path = if path.is_empty() { "." } else { path };
    let mut scratch = vec![0; RESULT];
    scratch.extend_from_slice(path.as_bytes());
    Some((scratch, i32::try_from(path.len()).unwrap_or(i32::MAX)))
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
