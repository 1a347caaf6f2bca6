//! Offsets in the structures of CPython and numpy. Each is compared with the code that uses it.

/// `_builtin_descrs`: numpy's descriptors, by number.
pub(super) const BUILTIN_DESCRIPTORS: u32 = 26_425_600;

/// Offset of an object's type, according to `_Py_DebugOffsets`.
pub(super) const OBJECT_TYPE: u64 = 4;

/// State bits of a string: compact and ASCII.
pub(super) const COMPACT_ASCII: i32 = 0x60;

/// Offset of the number in a descriptor.
pub(super) const DESCRIPTOR_NUMBER: u64 = 16;

/// Offset of the scalar type in a descriptor.
pub(super) const DESCRIPTOR_SCALAR: u64 = 8;

/// Offsets in an array.
pub(super) const ARRAY_DATA: u64 = 8;
pub(super) const ARRAY_DIMENSIONS: u64 = 12;
pub(super) const ARRAY_SHAPE: u64 = 16;
pub(super) const ARRAY_DESCRIPTOR: u64 = 28;
