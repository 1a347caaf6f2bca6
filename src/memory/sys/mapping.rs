//! Files mapped copy-on-write in reserved address space, as Linux and other Unix systems do it alike.

mod backing;
mod space;

pub(in crate::memory) use backing::Backing;
pub(in crate::memory) use space::{Extent, Space};

use rustix::mm::MapFlags;

/// A mapping of which others see nothing. What nobody writes to takes no memory, and none is promised
/// for it, where the system promises any.
#[cfg(not(target_os = "freebsd"))]
const PRIVATE: MapFlags = MapFlags::PRIVATE.union(MapFlags::NORESERVE);
#[cfg(target_os = "freebsd")]
const PRIVATE: MapFlags = MapFlags::PRIVATE;
