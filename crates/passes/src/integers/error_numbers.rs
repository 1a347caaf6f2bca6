//! Error numbers: `errno` in Python has the numbers and texts of Linux.
//!
//! The C library has WASI's numbers, and C code goes on with them. Numbers of Python code are
//! Linux's where they are made: `OSError` from the C library's `errno`, and the module `errno` when
//! it is initialized; and where they are read: `os.strerror`, and the retry of buffered files. The
//! artifact's memory has an interpreter that was initialized with WASI's: the runner has it done
//! again. The texts of the C library are replaced by those of glibc.

use wasm_encoder::{BlockType, Function, Instruction, InstructionSink, ValType};
use wasmparser::Operator;

use super::IntegersError;
use super::parsed::{Changes, Parsed};
use super::patterns::Step::{Add, Const, Get, Load, Load16, Ne, Shl, Tee};
use super::patterns::find;

/// The function that makes an error from the C library's `errno`.
const FROM_ERRNO: &str = "PyErr_SetFromErrnoWithFilenameObjects";
/// The function of buffered files that checks whether a raw file was interrupted.
const IS_INTERRUPTED: &str = "_PyIO_trap_eintr";
/// The function that adds a name to the module `errno`: `(names, texts, name, number) -> status`.
const ADD: &str = "_add_errcode";

/// Address of the C library's `errno`.
pub(super) const ERRNO: u64 = 28_058_676;
/// Address of the places of the C library's texts, of 16 bits each, relative to [`TEXTS`].
const PLACES: u32 = 25_905_440;
/// Address of these texts.
const TEXTS: u32 = 25_903_876;

/// The C library's first texts.
const FIRST_TEXTS: &[u8] = b"Success\0Illegal byte sequence\0";

/// WASI's number of a call that a signal interrupted.
const INTERRUPTED: u8 = 27;
/// WASI's number without a counterpart: a capability of a descriptor is missing.
const NOT_CAPABLE: u8 = 76;
/// The text of all numbers that Linux does not have, or this module has no room for.
const UNKNOWN: &str = "Unknown error";

/// Linux's number and glibc's text for each of WASI's numbers. Errors of networks, which cannot
/// occur, keep the C library's text if it is shorter: the texts replace others.
const ERRORS: [(u8, &str); 77] = [
    (0, "Success"),
    (7, "Argument list too long"),                    // E2BIG
    (13, "Permission denied"),                        // EACCES
    (98, "Address in use"),                           // EADDRINUSE
    (99, "Address not available"),                    // EADDRNOTAVAIL
    (97, "Address family not supported by protocol"), // EAFNOSUPPORT
    (11, "Resource temporarily unavailable"),         // EAGAIN
    (114, "Operation already in progress"),           // EALREADY
    (9, "Bad file descriptor"),                       // EBADF
    (74, "Bad message"),                              // EBADMSG
    (16, "Device or resource busy"),                  // EBUSY
    (125, "Operation canceled"),                      // ECANCELED
    (10, "No child processes"),                       // ECHILD
    (103, "Connection aborted"),                      // ECONNABORTED
    (111, "Connection refused"),                      // ECONNREFUSED
    (104, "Connection reset by peer"),                // ECONNRESET
    (35, "Resource deadlock avoided"),                // EDEADLK
    (89, "Destination address required"),             // EDESTADDRREQ
    (33, "Numerical argument out of domain"),         // EDOM
    (122, "Disk quota exceeded"),                     // EDQUOT
    (17, "File exists"),                              // EEXIST
    (14, "Bad address"),                              // EFAULT
    (27, "File too large"),                           // EFBIG
    (113, "No route to host"),                        // EHOSTUNREACH
    (43, "Identifier removed"),                       // EIDRM
    (84, "Illegal byte sequence"),                    // EILSEQ
    (115, "Operation in progress"),                   // EINPROGRESS
    (4, "Interrupted system call"),                   // EINTR
    (22, "Invalid argument"),                         // EINVAL
    (5, "Input/output error"),                        // EIO
    (106, "Socket is connected"),                     // EISCONN
    (21, "Is a directory"),                           // EISDIR
    (40, "Too many levels of symbolic links"),        // ELOOP
    (24, "Too many open files"),                      // EMFILE
    (31, "Too many links"),                           // EMLINK
    (90, "Message too long"),                         // EMSGSIZE
    (72, UNKNOWN),                                    // EMULTIHOP
    (36, "File name too long"),                       // ENAMETOOLONG
    (100, "Network is down"),                         // ENETDOWN
    (102, "Connection reset by network"),             // ENETRESET
    (101, "Network unreachable"),                     // ENETUNREACH
    (23, "Too many open files in system"),            // ENFILE
    (105, "No buffer space available"),               // ENOBUFS
    (19, "No such device"),                           // ENODEV
    (2, "No such file or directory"),                 // ENOENT
    (8, "Exec format error"),                         // ENOEXEC
    (37, "No locks available"),                       // ENOLCK
    (67, UNKNOWN),                                    // ENOLINK
    (12, "Cannot allocate memory"),                   // ENOMEM
    (42, "No message of desired type"),               // ENOMSG
    (92, "Protocol not available"),                   // ENOPROTOOPT
    (28, "No space left on device"),                  // ENOSPC
    (38, "Function not implemented"),                 // ENOSYS
    (107, "Socket not connected"),                    // ENOTCONN
    (20, "Not a directory"),                          // ENOTDIR
    (39, "Directory not empty"),                      // ENOTEMPTY
    (131, UNKNOWN),                                   // ENOTRECOVERABLE
    (88, "Not a socket"),                             // ENOTSOCK
    (95, "Operation not supported"),                  // ENOTSUP
    (25, "Inappropriate ioctl for device"),           // ENOTTY
    (6, "No such device or address"),                 // ENXIO
    (75, "Value too large for defined data type"),    // EOVERFLOW
    (130, UNKNOWN),                                   // EOWNERDEAD
    (1, "Operation not permitted"),                   // EPERM
    (32, "Broken pipe"),                              // EPIPE
    (71, "Protocol error"),                           // EPROTO
    (93, "Protocol not supported"),                   // EPROTONOSUPPORT
    (91, "Protocol wrong type for socket"),           // EPROTOTYPE
    (34, "Numerical result out of range"),            // ERANGE
    (30, "Read-only file system"),                    // EROFS
    (29, "Illegal seek"),                             // ESPIPE
    (3, "No such process"),                           // ESRCH
    (116, "Stale file handle"),                       // ESTALE
    (110, "Connection timed out"),                    // ETIMEDOUT
    (26, "Text file busy"),                           // ETXTBSY
    (18, "Invalid cross-device link"),                // EXDEV
    (1, UNKNOWN),                                     // ENOTCAPABLE
];

pub(super) fn apply(
    parsed: &Parsed<'_>,
    changes: &mut Changes<'_, '_>,
) -> Result<(), IntegersError> {
    let numbers = ERRORS.map(|(number, _)| number);
    let to_linux = changes.add(&[()], true, lookup(&numbers, None))?;
    let from_linux = changes.add(&[()], true, lookup(&of_linux(), Some(NOT_CAPABLE)))?;

    let text = parsed.taking("strerror", 1)?;
    let text_of_linux = changes.add(&[()], true, after(from_linux, text))?;
    redirect(parsed, changes, FROM_ERRNO, "strerror", text_of_linux, 1)?;
    redirect(parsed, changes, "os_strerror", "strerror", text_of_linux, 2)?;

    let python = parsed.taking("PyLong_FromLong", 1)?;
    let python_of = changes.add(&[()], true, after(to_linux, python))?;
    redirect(parsed, changes, "errno_exec", "PyLong_FromLong", python_of, 6)?;
    let add = parsed.taking(ADD, 4)?;
    changes.wrap(add, |inner| add_name(inner, to_linux))?;

    let index = parsed.function(FROM_ERRNO)?;
    let read = find(parsed, FROM_ERRNO, &[Const(0), Load(ERRNO), Tee(5)], "the number")?;
    let mut code = Vec::new();
    InstructionSink::new(&mut code).call(to_linux);
    changes.splice(index, read[2]..read[2], code);
    for (function, local) in [(FROM_ERRNO, 5), (IS_INTERRUPTED, 3)] {
        let steps = [Get(local), Const(INTERRUPTED.into()), Ne];
        let compared = find(parsed, function, &steps, "whether a signal interrupted the call")?;
        let mut code = Vec::new();
        InstructionSink::new(&mut code).i32_const(numbers[usize::from(INTERRUPTED)].into());
        changes.splice(parsed.function(function)?, compared[1]..compared[2], code);
    }

    let found = [Const(1), Shl, Load16(PLACES.into()), Const(TEXTS.cast_signed()), Add];
    find(parsed, "strerror", &found, "where the texts are").map(drop)
}

/// Replaces the texts in the interpreter's first memory.
pub(crate) fn write_texts(memory: &mut [u8]) -> Result<(), IntegersError> {
    let (places, texts) = texts();
    let region = memory.get_mut(TEXTS as usize..).filter(|rest| rest.starts_with(FIRST_TEXTS));
    let region = region.and_then(|rest| rest.split_at_mut_checked((PLACES - TEXTS) as usize));
    let (texts_region, rest) = region.ok_or(IntegersError::Missing("texts of errors"))?;
    texts_region
        .get_mut(..texts.len())
        .ok_or(IntegersError::Missing("room for the texts of errors"))?
        .copy_from_slice(&texts);
    rest.get_mut(..places.len())
        .ok_or(IntegersError::Missing("places of the texts of errors"))?
        .copy_from_slice(&places);
    Ok(())
}

/// WASI's number for each of Linux's.
fn of_linux() -> Vec<u8> {
    let greatest = ERRORS.iter().map(|(number, _)| *number).max().unwrap_or_default();
    let mut numbers = vec![NOT_CAPABLE; usize::from(greatest) + 1];
    for (number, (linux, _)) in (0..NOT_CAPABLE).zip(&ERRORS) {
        numbers[usize::from(*linux)] = number;
    }
    numbers
}

/// The places of the texts, and the texts.
fn texts() -> (Vec<u8>, Vec<u8>) {
    let mut places = Vec::new();
    let mut texts = format!("{UNKNOWN}\0").into_bytes();
    for (_, text) in &ERRORS {
        let place = if *text == UNKNOWN {
            0
        } else {
            texts.len() as u16
        };
        places.extend(place.to_le_bytes());
        if *text != UNKNOWN {
            texts.extend(text.bytes().chain([0]));
        }
    }
    (places, texts)
}

/// `second(first(number))`.
fn after(first: u32, second: u32) -> Function {
    let mut function = Function::new([]);
    function.instructions().local_get(0).call(first).call(second).end();
    function
}

/// Adds a name with Linux's number, unless Linux does not have it.
fn add_name(inner: u32, to_linux: u32) -> Function {
    let mut function = Function::new([]);
    let mut code = function.instructions();
    code.local_get(3).i32_const(NOT_CAPABLE.into()).i32_eq();
    code.if_(BlockType::Empty).i32_const(0).return_().end();
    code.local_get(0).local_get(1).local_get(2).local_get(3).call(to_linux).call(inner).end();
    function
}

/// A function that returns the byte of `bytes` with the number it is called with; beyond them
/// `outside`, or the number itself. The bytes are constants of its code.
fn lookup(bytes: &[u8], outside: Option<u8>) -> Function {
    let mut function = Function::new([]);
    let mut code = function.instructions();
    code.local_get(0)
        .i32_const((bytes.len() as u32).cast_signed())
        .i32_ge_u()
        .if_(BlockType::Empty);
    match outside {
        Some(byte) => code.i32_const(byte.into()),
        None => code.local_get(0),
    };
    code.return_().end();
    let words: Vec<i64> = bytes
        .chunks(8)
        .map(|chunk| chunk.iter().rev().fold(0, |word, byte| word << 8 | i64::from(*byte)))
        .collect();
    let last = words.len() as u32 - 1;
    code.block(BlockType::Result(ValType::I64));
    for _ in &words {
        code.block(BlockType::Empty);
    }
    code.local_get(0).i32_const(3).i32_shr_u().br_table(0..last, last);
    for (at, word) in (0..=last).zip(words) {
        code.end().i64_const(word).br(last - at);
    }
    code.end();
    code.local_get(0).i32_const(7).i32_and().i32_const(3).i32_shl().i64_extend_i32_u();
    code.i64_shr_u().i32_wrap_i64().i32_const(0xff).i32_and().end();
    function
}

/// Has a function call `to` where it calls `from`, which it does `times` times.
fn redirect(
    parsed: &Parsed<'_>,
    changes: &mut Changes<'_, '_>,
    function: &'static str,
    from: &'static str,
    to: u32,
    times: usize,
) -> Result<(), IntegersError> {
    let (index, callee) = (parsed.function(function)?, parsed.function(from)?);
    let is_call = |operator: &Operator<'_>| matches!(operator, Operator::Call { function_index } if *function_index == callee);
    if changes.replace_each(index, is_call, &Instruction::Call(to))? == times {
        return Ok(());
    }
    Err(IntegersError::Other {
        function,
        what: "the number of calls",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_linux_is_one_of_wasi() {
        let back = of_linux();
        for (number, (linux, _)) in (0..NOT_CAPABLE).zip(&ERRORS) {
            assert_eq!(back[usize::from(*linux)], number, "{linux}");
        }
        assert_eq!(back.iter().filter(|number| **number != NOT_CAPABLE).count(), 76);
    }

    #[test]
    fn texts_are_where_their_places_say() {
        let (places, texts) = texts();
        for ((_, text), place) in ERRORS.iter().zip(places.chunks(2)) {
            let place = usize::from(u16::from_le_bytes([place[0], place[1]]));
            assert!(texts[place..].starts_with(format!("{text}\0").as_bytes()), "{text}");
        }
        assert!(texts.len() <= (PLACES - TEXTS) as usize, "{}", texts.len());
    }
}
