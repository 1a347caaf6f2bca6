//! Directories that all instances see and none can change, open once for all of them.
//!
//! A process may have so many open files, and a session that is awake holds those of its directories.
//! wasmtime-wasi opens each directory for each instance anew; what stands behind the descriptors is
//! replaced afterwards.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use wasmtime_wasi::WasiCtx;
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtx, WasiFilesystemView};
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::p1::wasi_snapshot_preview1 as p1;
use wiggle::GuestMemory;

use super::InstanceError;

/// The directories in certain places among those of an instance.
pub(super) struct SharedDirs {
    places: &'static [usize],
    /// Those that the last instance had, and what they are.
    held: Mutex<Vec<(Identity, Arc<File>)>>,
    /// A context without directories.
    bare: WasiFilesystemCtx,
}

/// The device and the number of a directory; nothing else has them while it is open.
type Identity = (u64, u64);

impl SharedDirs {
    pub(super) fn new(places: &'static [usize]) -> Self {
        let mut bare = WasiCtx::builder().allow_blocking_current_thread(true).build();
        Self {
            places,
            held: Mutex::default(),
            bare: bare.filesystem().clone(),
        }
    }

    /// Has a context that was just made share its directories with those before it. One that is another
    /// by now, because the cache was made anew, takes the place of the one before.
    pub(super) fn share(&self, wasi: &mut WasiP1Ctx) -> Result<(), InstanceError> {
        make_descriptors(wasi)?;
        let mut dirs = dirs(wasi);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut passed = 0;
        for (index, place) in self.places.iter().enumerate() {
            let Some(dir) = dirs.nth(place - passed) else {
                break;
            };
            passed = place + 1;
            let Ok(identity) = identity(dir) else {
                continue;
            };
            match held.get_mut(index) {
                Some((known, shared)) if *known == identity => *dir = Arc::clone(shared),
                Some(other) => *other = (identity, Arc::clone(dir)),
                None => held.push((identity, Arc::clone(dir))),
            }
        }
        drop((held, dirs));
        // It would hold on to what was replaced.
        *wasi.filesystem().ctx = self.bare.clone();
        Ok(())
    }
}

/// The directories behind the descriptors, in their order.
fn dirs(wasi: &mut WasiP1Ctx) -> impl Iterator<Item = &mut Arc<File>> {
    let entries = wasi.filesystem().table.iter_mut().filter_map(|entry| entry.downcast_mut());
    entries.filter_map(|descriptor| match descriptor {
        Descriptor::Dir(dir) => Some(&mut dir.dir),
        Descriptor::File(_) => None,
    })
}

/// Has the descriptors made, as the first call of the system interface does.
fn make_descriptors(wasi: &mut WasiP1Ctx) -> Result<(), InstanceError> {
    const STDIN: i32 = 0;
    let mut room = [0; 64];
    // It has no position, and says so.
    p1::fd_tell(wasi, &mut GuestMemory::Unshared(&mut room), STDIN, 0)
        .map(drop)
        .map_err(InstanceError::start)
}

#[cfg(unix)]
fn identity(dir: &File) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt;
    let known = dir.metadata()?;
    Ok((known.dev(), known.ino()))
}

/// Elsewhere files are not so few that they would have to be shared.
#[cfg(not(unix))]
fn identity(_: &File) -> io::Result<Identity> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;
    use wasmtime_wasi::FsPerms;

    const NAMES: [&str; 3] = ["library", "workspace", "root"];

    fn context(shared: &SharedDirs, base: &Path) -> WasiP1Ctx {
        let mut builder = WasiCtx::builder();
        for name in NAMES {
            builder.preopened_dir(base.join(name), name, FsPerms::ReadOnly).unwrap();
        }
        let mut wasi = builder.build_p1();
        shared.share(&mut wasi).unwrap();
        wasi
    }

    fn held(wasi: &mut WasiP1Ctx) -> Vec<Arc<File>> {
        dirs(wasi).map(|dir| Arc::clone(dir)).collect()
    }

    #[test]
    fn those_that_are_the_same_are_open_once_and_stay_in_their_places() {
        let base = tempfile::tempdir().unwrap();
        for name in NAMES {
            fs::create_dir(base.path().join(name)).unwrap();
        }
        let shared = SharedDirs::new(&[0, 2]);
        let (mut one, mut two) = (context(&shared, base.path()), context(&shared, base.path()));
        let (first, second) = (held(&mut one), held(&mut two));
        assert!(Arc::ptr_eq(&first[0], &second[0]) && Arc::ptr_eq(&first[2], &second[2]));
        assert!(!Arc::ptr_eq(&first[1], &second[1]));
        for (dir, name) in second.iter().zip(NAMES) {
            let there = File::open(base.path().join(name)).unwrap();
            assert_eq!(identity(dir).unwrap(), identity(&there).unwrap(), "{name}");
        }

        // Made anew, as by a cache that was removed: the old one is nobody's any more.
        fs::rename(base.path().join("library"), base.path().join("old")).unwrap();
        fs::create_dir(base.path().join("library")).unwrap();
        let third = held(&mut context(&shared, base.path()));
        let there = File::open(base.path().join("library")).unwrap();
        assert_eq!(identity(&third[0]).unwrap(), identity(&there).unwrap());
        let fourth = held(&mut context(&shared, base.path()));
        assert!(Arc::ptr_eq(&third[0], &fourth[0]) && Arc::ptr_eq(&third[2], &first[2]));
    }

    #[test]
    fn what_was_replaced_is_closed() {
        let base = tempfile::tempdir().unwrap();
        for name in NAMES {
            fs::create_dir(base.path().join(name)).unwrap();
        }
        let shared = SharedDirs::new(&[0, 2]);
        let mut contexts: Vec<_> = (0..5).map(|_| context(&shared, base.path())).collect();
        let workspace = held(&mut contexts[4])[1].clone();
        // The test's, and the descriptor's.
        assert_eq!(Arc::strong_count(&workspace), 2);
        let library = held(&mut contexts[4])[0].clone();
        assert_eq!(Arc::strong_count(&library), 1 + 1 + contexts.len());
    }
}
