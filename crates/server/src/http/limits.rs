//! Limits on connections, bodies and uploads.

/// Maximum number of connections, and of connections other than WebSockets per key.
pub(crate) const MAX_CONNECTIONS: usize = 4096;
pub(crate) const MAX_PLAIN: usize = 1024;
/// Unit of the memory budget for bodies, in bytes.
pub(crate) const UNIT: usize = 1 << 10;
/// Maximum number of concurrent uploads, and per owner.
pub(crate) const MAX_UPLOADS: usize = 1024;
pub(crate) const MAX_OWNED: usize = 64;
/// Maximum disk space of uploads in MiB. One owner can use half of it.
pub(crate) const MAX_SPOOLED: usize = 16 << 10;
