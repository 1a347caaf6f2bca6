//! Bounds of what requests may hold.

/// The most connections at once, and those of one key that are no WebSockets.
pub(crate) const MAX_CONNECTIONS: usize = 4096;
pub(crate) const MAX_PLAIN: usize = 1024;
/// The unit of the budget, in bytes.
pub(crate) const UNIT: usize = 1 << 10;
/// Uploads at once, and those of one owner.
pub(crate) const MAX_UPLOADS: usize = 1024;
pub(crate) const MAX_OWNED: usize = 64;
/// What uploads may take on the disk together, in MiB; one owner may have half of it.
pub(crate) const MAX_SPOOLED: usize = 16 << 10;
