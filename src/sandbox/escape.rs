//! What a guest could do that has broken out of WebAssembly: any system call, and any memory of
//! this process. Only tests of the lock-down are built with it (the feature `escape`).
#![expect(
    unsafe_code,
    reason = "an escaped guest has the process's memory and system calls"
)]

use super::door::Answer;

/// Begins the frames of an escaped guest. A program that contains these bytes has the hook.
const HOOK: &[u8] = b"belljar was built with the hook of the escape tests: ";

const CALL: u8 = b'c';
const READ: u8 = b'r';
const WRITE: u8 = b'w';

/// Answers a frame if it begins with [`HOOK`]. A letter follows, and words of 64 bits:
///
/// * `c`, a number and six arguments: makes a system call, and answers with the result or the
///   negative `errno`;
/// * `r`, an address and a length: answers with these bytes of the process;
/// * `w` and an address: writes the bytes that follow.
pub(super) fn answer(frame: &[u8]) -> Option<Answer> {
    let (&letter, rest) = frame.strip_prefix(HOOK)?.split_first()?;
    let (words, _) = rest.as_chunks::<8>();
    let word = |at: usize| words.get(at).map_or(0, |word| u64::from_le_bytes(*word));
    let pointer = |at: usize| std::ptr::with_exposed_provenance_mut::<u8>(word(at) as usize);
    let answer = match letter {
        CALL => {
            let [number, one, two, three, four, five, six] = [0, 1, 2, 3, 4, 5, 6].map(word);
            // SAFETY: none. The guest takes the place of an attacker.
            let result =
                unsafe { libc::syscall(number.cast_signed(), one, two, three, four, five, six) };
            let result = if result == -1 {
                let error = std::io::Error::last_os_error();
                -i64::from(error.raw_os_error().unwrap_or_default())
            } else {
                result
            };
            result.to_le_bytes().to_vec()
        }
        // SAFETY: as above.
        READ => unsafe { std::slice::from_raw_parts(pointer(0), word(1) as usize) }.to_vec(),
        WRITE => {
            let bytes = rest.get(8..)?;
            // SAFETY: as above.
            unsafe { pointer(0).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            Vec::new()
        }
        _ => return None,
    };
    Some(Answer::Bytes(answer))
}
