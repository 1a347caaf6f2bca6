//! Advice on errors, separate from their messages.

/// An error that may give advice.
pub(crate) trait Hint {
    /// Returns one line of advice, if there is any.
    fn hint(&self) -> Option<String>;
}

impl Hint for belljar_memory::MemoryError {
    fn hint(&self) -> Option<String> {
        let source = std::error::Error::source(self)?.downcast_ref::<std::io::Error>()?;
        (source.kind() == std::io::ErrorKind::OutOfMemory).then(|| {
            "every sandbox reserves 4 GiB of address space, of which it uses little: raise the limit \
             on that (ulimit -v)"
                .into()
        })
    }
}

/// Error number for too many open files in the system; the same on every Unix.
#[cfg(unix)]
const ENFILE: i32 = 23;
#[cfg(unix)]
const EMFILE: i32 = 24;

/// Returns advice if the process has reached its limit on open files.
pub(crate) fn lacks_descriptors(error: &std::io::Error) -> Option<String> {
    #[cfg(not(unix))]
    let _ = error;
    #[cfg(unix)]
    if matches!(error.raw_os_error(), Some(ENFILE | EMFILE)) {
        return Some(
            "the process may open no more files: raise its limit (`ulimit -n`), or keep fewer sessions \
             awake, of which each takes about three"
                .into(),
        );
    }
    None
}

#[cfg(all(test, unix))]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn who_has_too_many_open_files_is_told_what_to_do() {
        let hint = lacks_descriptors(&io::Error::from_raw_os_error(libc::EMFILE)).unwrap();
        assert!(hint.contains("ulimit -n"), "{hint}");
        assert!(lacks_descriptors(&io::Error::from_raw_os_error(libc::ENFILE)).is_some());
        assert_eq!(lacks_descriptors(&io::ErrorKind::NotFound.into()), None);
    }
}
