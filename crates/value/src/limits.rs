//! Limits of a value that comes from a guest, or goes to one.

/// Maximum nesting of containers in a typed value.
pub const MAX_TYPED_DEPTH: u32 = 32;
/// Maximum number of JSON levels of a typed value: a dictionary in the tagged form has three.
pub const MAX_TYPED_LEVELS: u32 = 120;
/// Maximum number of values in a typed value; an array counts as one.
pub const MAX_TYPED_ITEMS: usize = 250_000;
/// Maximum number of JSON values in a typed value: a `timedelta` has six.
pub const MAX_TYPED_NODES: usize = 6 * MAX_TYPED_ITEMS;
/// Maximum number of buffers of a typed value.
pub const MAX_TYPED_BUFFERS: usize = 100_000;
