//! The initial file system of a guest: its own directories, which exist only in memory; the
//! library, packed into files that stay open with the runtime; and read-only mounts of host
//! directories.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use belljar_files::{Device, Errno, Files, Limits, Packed, Pool, PoolOptions, ReadOnly};

use crate::api::request::Mount;
use crate::artifact::PINS;
use crate::limits::{MAX_OPEN, MAX_PATH_BYTES, MAX_PATH_NAMES, MAX_SPOOLED};

/// The guest's working directory.
pub(crate) const WORKSPACE_PATH: &str = "/workspace";
/// The guest's directory for temporary files.
pub(crate) const TEMPORARY_PATH: &str = "/tmp";
/// Path of the image's packages.
pub(crate) const PACKAGES_PATH: &str = "/packages";

/// Paths of the directories that every guest is given. Their descriptor numbers, from 3 on in this
/// order, are part of the image format: the C library in every image remembers them.
static GIVEN: LazyLock<[String; 5]> = LazyLock::new(|| {
    let abi = &PINS.abi;
    [
        abi.library_dir.clone(),
        format!("{}/{}/matplotlib/mpl-data", abi.library_dir, abi.library_zip),
        WORKSPACE_PATH.to_owned(),
        TEMPORARY_PATH.to_owned(),
        "/".to_owned(),
    ]
});
/// Number of streams: the descriptors before the first directory.
pub(super) const STREAMS: u64 = 3;

/// The descriptor number that wasmtime-wasi gives to the first mount, after the streams.
pub(super) const FIRST_MOUNT: u64 = STREAMS;
/// Descriptor number of the guest's root, below which mounts are found.
pub(super) const ROOT_FD: i32 = 7;
pub(super) const WORKSPACE_FD: i32 = 5;

/// Read-only trees that every guest sees: the library, and matplotlib's data.
pub(crate) type Library = [Arc<dyn ReadOnly>; 2];

/// Creates file systems that share one storage.
#[derive(Clone)]
pub(crate) struct Roots(Files);

impl Roots {
    /// Creates file systems that keep `memory` bytes in memory, and further bytes in a nameless
    /// file in `spool`.
    pub(crate) fn new(spool: PathBuf, memory: u64, library: Library) -> Result<Self, Errno> {
        let pool = Pool::new(PoolOptions {
            memory,
            spool: Some(spool),
            disk: MAX_SPOOLED,
        });
        let mut files = Files::new(&pool, limits(0, 0));
        for number in 0..STREAMS {
            files.open_foreign(number, true)?;
        }
        for (tree, path) in library.into_iter().zip(&*GIVEN) {
            let root = files.attach(tree, path)?;
            files.give(root, path)?;
        }
        for path in [WORKSPACE_PATH, TEMPORARY_PATH] {
            let dir = files.make_dirs(path, true)?;
            files.give(dir, path)?;
        }
        for (path, device) in [
            ("/dev/null", Device::Null),
            ("/dev/zero", Device::Zero),
            ("/dev/urandom", Device::Random),
            ("/dev/random", Device::Random),
        ] {
            files.make_device(path, device)?;
        }
        files.give(files.root(), "/")?;
        // Last, so that the descriptor numbers stay. The paths around the library are visible, too.
        if let Some(library) = files.find_attached(&GIVEN[0]) {
            files.mount(&GIVEN[0], library)?;
        }
        Ok(Self(files))
    }

    /// Creates file systems with an empty library.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn without_library(spool: PathBuf) -> Result<Self, Errno> {
        let empty = Arc::<Packed>::default();
        Self::new(spool, belljar_files::DEFAULT_MEMORY, [Arc::clone(&empty) as _, empty])
    }

    /// Returns the storage.
    pub(crate) fn pool(&self) -> &Pool {
        self.0.pool()
    }

    /// Creates the empty file system of a guest, with its mounts and its packages, if any.
    pub(crate) fn files(
        &self,
        mounts: &[Mount],
        packages: Option<&Arc<Packed>>,
    ) -> Result<Files, Errno> {
        let mut files = self.0.clone();
        if let Some(packages) = packages {
            let root = files.attach(Arc::clone(packages) as _, PACKAGES_PATH)?;
            files.mount(PACKAGES_PATH, root)?;
        }
        let paths = mount_paths(mounts);
        for (tag, path) in (FIRST_MOUNT..).zip(&paths) {
            // A mount below another mount is reached through that one.
            let others = paths.iter().filter(|other| *other != path).map(String::as_str);
            if place(others, path).is_none() {
                files.make_portal(path, tag)?;
            }
        }
        Ok(files)
    }
}

/// Returns the guest paths of mounts, in wasmtime-wasi's order.
pub(crate) fn mount_paths(mounts: &[Mount]) -> Vec<String> {
    mounts.iter().map(|mount| format!("/{}", mount.guest.trim_matches('/'))).collect()
}

/// Returns the number of the directory that an absolute path leads into, and the path from there.
pub(super) fn place<'a, 'p>(
    places: impl IntoIterator<Item = &'a str>,
    path: &'p str,
) -> Option<(u64, &'p str)> {
    let inside = |(number, place): (u64, &'a str)| {
        let rest = path.strip_prefix(place)?;
        let is_inside = rest.is_empty() || rest.starts_with('/');
        is_inside.then(|| (place.len(), number, rest.trim_start_matches('/')))
    };
    let found = (STREAMS..).zip(places).filter_map(inside).max_by_key(|(length, ..)| *length);
    found.map(|(_, number, rest)| (number, rest))
}

/// Whether an absolute path is in a mount.
pub(crate) fn is_of_host(path: &str, mounts: &[String]) -> bool {
    place(mounts.iter().map(String::as_str), path).is_some()
}

/// Returns limits of this many bytes and files, with the fixed limit on open files.
pub(crate) fn limits(bytes: u64, files: u64) -> Limits {
    Limits {
        bytes,
        files,
        open: MAX_OPEN,
        depth: MAX_PATH_NAMES,
        path: MAX_PATH_BYTES,
    }
}
