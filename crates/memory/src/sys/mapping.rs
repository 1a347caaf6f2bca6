//! Files mapped copy-on-write in reserved address space: one implementation for Linux and other
//! Unix systems, and one for Windows.

#[cfg(unix)]
mod backing;
#[cfg(any(not(memory = "linux"), test))]
#[cfg_attr(
    memory = "linux",
    allow(dead_code, reason = "unit tests look only at what all have in common")
)]
mod region;
#[cfg(unix)]
mod space;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use backing::Backing;
#[cfg(any(not(memory = "linux"), test))]
pub(crate) use region::Region;
#[cfg(unix)]
use rustix::mm::MapFlags;
#[cfg(unix)]
pub use space::Extent;
#[cfg(unix)]
pub(crate) use space::Space;
#[cfg(windows)]
pub use windows::Backing;
#[cfg(windows)]
pub(crate) use windows::Space;

#[cfg(windows)]
pub use super::not_linux::Extent;

/// A private mapping. Unwritten pages use no memory, and the system reserves none for them, if it
/// reserves memory at all.
#[cfg(all(unix, not(target_os = "freebsd")))]
const PRIVATE: MapFlags = MapFlags::PRIVATE.union(MapFlags::NORESERVE);
#[cfg(target_os = "freebsd")]
const PRIVATE: MapFlags = MapFlags::PRIVATE;
