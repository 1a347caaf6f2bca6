//! Names that a guest chooses, on the host.

/// Whether a path has the same names on this system as in the guest.
pub(crate) fn are_host_names(path: &str) -> bool {
    !cfg!(windows) || are_windows_names(path)
}

/// On Windows, `C:` is a drive, also within a path, `f:x` is a stream, and `\` separates names.
fn are_windows_names(path: &str) -> bool {
    !path.contains([':', '\\'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_streams_and_separators_are_no_names() {
        for path in ["C:", "C:x", "a/C:/windows/win.ini", "a/f.txt:s", r"a\..\..\f", r"\\?\f"] {
            assert!(!are_windows_names(path), "{path}");
            assert_eq!(are_host_names(path), cfg!(unix), "{path}");
        }
        assert!(are_host_names("") && are_host_names("a/b .txt/..c"));
    }
}
