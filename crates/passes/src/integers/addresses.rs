//! Addresses of the interpreter's and numpy's data that the added functions read.
//!
//! The layout of the interpreter's structures comes from `_Py_DebugOffsets`, the table at the start
//! of `_PyRuntime` that CPython keeps for debuggers. All other values are constants here, and are
//! compared with the code that uses them.

use super::IntegersError;
use super::offsets::{BUILTIN_DESCRIPTORS, COMPACT_ASCII, OBJECT_TYPE};
use super::parsed::Parsed;
use super::patterns::Step::{Add, And, BrIf, Const, Eq, Get, Load, Ne, Shl, Tee};
use super::patterns::{Step, find};

/// Addresses that the added functions read.
pub(super) struct Addresses {
    /// The pointer to the current thread's state.
    pub thread_state: u64,
    pub code_type: i32,
    pub array_type: i32,
    pub int_type: i32,
    /// The pointers to the exceptions.
    pub type_error: u64,
    pub overflow_error: u64,
    pub index_error: u64,
    /// The string "Python int too large to convert to C ssize_t".
    pub too_large: i32,
    pub layout: Layout,
}

/// Offsets in the interpreter's structures.
pub(super) struct Layout {
    pub current_frame: u64,
    pub frame_previous: u64,
    pub frame_executable: u64,
    /// First local variable.
    pub frame_locals: u64,
    pub frame_owner: u64,
    pub code_filename: u64,
    pub code_name: u64,
    /// Tuple of the names of local variables.
    pub code_locals: u64,
    pub type_flags: u64,
    pub tuple_item: u64,
    pub tuple_size: u64,
    pub text_state: u64,
    pub text_length: u64,
    /// Size of the head of an ASCII string, which its characters follow.
    pub text_letters: u64,
}

impl Addresses {
    pub(super) fn find(parsed: &Parsed<'_>) -> Result<Self, IntegersError> {
        let known = Self {
            thread_state: 27_561_516,
            code_type: 26_074_456,
            array_type: 26_443_132,
            int_type: 26_106_228,
            type_error: 26_079_160,
            overflow_error: 26_079_564,
            index_error: 26_079_528,
            too_large: 17_063_655,
            layout: Layout::read(parsed)?,
        };
        let windows: [(&'static str, &[Step], &'static str); 9] = [
            (
                "PyThreadState_GetUnchecked",
                &[Const(0), Load(known.thread_state)],
                "the current thread's state",
            ),
            (
                "func_set_code",
                &[Get(1), Const(4), Add, Load(0), Const(known.code_type), Eq, BrIf(1)],
                "the type of code",
            ),
            ("_convert_from_any", &[Get(4), Const(known.array_type), Eq], "the type of arrays"),
            ("_convert_from_any", &[Get(0), Const(known.int_type), Ne], "the type of integers"),
            ("PyErr_BadArgument", &[Const(0), Load(known.type_error)], "TypeError"),
            (
                "PyArray_PutTo",
                &[
                    Const(0),
                    Load(known.index_error),
                    Const(16_821_161),
                    Step::Call("PyErr_SetString"),
                ],
                "IndexError",
            ),
            (
                "PyLong_AsSsize_t",
                &[
                    Const(0),
                    Load(known.overflow_error),
                    Const(known.too_large),
                    Step::Call("PyErr_SetString"),
                ],
                "OverflowError and its text",
            ),
            (
                "PyUnicode_AsUTF8AndSize",
                &[Load(0), Tee(3), Const(COMPACT_ASCII), And, Const(COMPACT_ASCII), Ne],
                "the state of a text that is ASCII",
            ),
            (
                "PyArray_DescrFromType",
                &[Get(0), Const(2), Shl, Load(u64::from(BUILTIN_DESCRIPTORS))],
                "the built-in descriptors",
            ),
        ];
        for (function, steps, what) in windows {
            find(parsed, function, steps, what)?;
        }
        Ok(known)
    }
}

/// Start of `_Py_DebugOffsets`, and the version of the interpreter that determines its layout.
const COOKIE: &[u8; 8] = b"xdebugpy";
const VERSION: u64 = 0x030f_00f0;

impl Layout {
    fn read(parsed: &Parsed<'_>) -> Result<Self, IntegersError> {
        let (_, table) =
            parsed.data(COOKIE).ok_or(IntegersError::Missing("table for debuggers"))?;
        let entry = |at: usize| {
            let bytes = table.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            let value = bytes.map(u64::from_le_bytes);
            value.ok_or(IntegersError::Missing("end of the table for debuggers"))
        };
        // An offset for a missing member would be 0 or a size.
        let offset = |at: usize| match entry(at)? {
            value if value < 4096 => Ok(value),
            _ => Err(IntegersError::Missing("offset in the table for debuggers")),
        };
        if entry(8)? != VERSION {
            return Err(IntegersError::Missing("table for debuggers of this version"));
        }
        if offset(472)? != OBJECT_TYPE {
            return Err(IntegersError::Missing("type at this place in its objects"));
        }
        Ok(Self {
            current_frame: offset(208)?,
            frame_previous: offset(320)?,
            frame_executable: offset(328)?,
            frame_locals: offset(344)?,
            frame_owner: offset(352)?,
            code_filename: offset(384)?,
            code_name: offset(392)?,
            code_locals: offset(432)?,
            type_flags: offset(504)?,
            tuple_item: offset(552)?,
            tuple_size: offset(560)?,
            text_state: offset(720)?,
            text_length: offset(728)?,
            text_letters: offset(736)?,
        })
    }
}
