//! The profile of a process for the sandbox of macOS, in its language (SBPL).

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use crate::plan::Lockdown;
use crate::status::LockdownError;

/// The rules for every process. They allow access to itself, to the system's libraries and their
/// caches, random numbers, time zones, the log, and facts about the machine. Operations that some
/// versions lack are tested for, because a profile that names an unknown one is refused.
const ALWAYS: &str = r#"(version 1)
(deny default)
(allow signal process-info* (target self))
(when (defined? 'dynamic-code-generation) (allow dynamic-code-generation))
(when (defined? 'mach-task-exception-port-set) (allow mach-task-exception-port-set))
(when (defined? 'file-lock) (allow file-lock))
(allow sysctl-read
    (sysctl-name-prefix "hw.") (sysctl-name-prefix "machdep.cpu.")
    (sysctl-name "kern.maxfilesperproc") (sysctl-name "kern.osproductversion")
    (sysctl-name "kern.osrelease") (sysctl-name "kern.ostype") (sysctl-name "kern.osversion")
    (sysctl-name "kern.version") (sysctl-name "vm.loadavg"))
(allow mach-lookup
    (global-name "com.apple.logd") (global-name "com.apple.system.logger")
    (global-name "com.apple.system.notification_center"))
(allow ipc-posix-shm-read-data (ipc-posix-name "apple.shm.notification_center"))
(allow file-read-metadata)
(allow file-read* file-map-executable
    (subpath "/System/Cryptexes/OS") (subpath "/System/Library")
    (subpath "/System/Volumes/Preboot/Cryptexes/OS") (subpath "/usr/lib"))
(allow file-read*
    (literal "/dev/null") (literal "/dev/random") (literal "/dev/urandom")
    (literal "/private/etc/localtime") (subpath "/private/var/db/dyld")
    (subpath "/private/var/db/timezone") (subpath "/usr/share/zoneinfo"))
(allow file-write-data (literal "/dev/null"))
"#;

/// The rules for resolving names and checking certificates, without the files that the plan names.
const NAMES: &str = r#"(allow mach-lookup
    (global-name "com.apple.SystemConfiguration.configd")
    (global-name "com.apple.dnssd.service") (global-name "com.apple.trustd")
    (global-name "com.apple.trustd.agent")
    (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow network-outbound
    (literal "/private/var/run/mDNSResponder") (remote udp "*:53"))
"#;

/// Filters for files and for directories.
const FILES: &str = "(require-not (vnode-type DIRECTORY))";
const DIRECTORIES: &str = "(vnode-type DIRECTORY)";

/// Returns the profile for a plan. A process that `listens` continues to accept connections.
pub(crate) fn profile(plan: &Lockdown, listens: bool, failures: &mut Vec<LockdownError>) -> String {
    let mut text = ALWAYS.to_owned();
    let mut filter = |path: &Path, then: &mut dyn FnMut(String)| match filter(path) {
        Ok(Some(filter)) => then(filter),
        Ok(None) => {}
        Err(source) => failures.push(LockdownError::Path {
            path: path.to_owned(),
            source,
        }),
    };
    let read = "file-read* file-map-executable";
    let all = [(&plan.reads, read.to_owned()), (&plan.writes, format!("{read} file-write*"))];
    for (paths, operations) in all {
        for path in paths {
            filter(path, &mut |filter| line(&mut text, &operations, &filter));
        }
    }
    for (paths, kind) in [(&plan.unlinks, FILES), (&plan.removes, DIRECTORIES)] {
        for path in paths {
            filter(path, &mut |filter| {
                let filter = format!("(require-all {kind} {filter})");
                line(&mut text, "file-write-unlink", &filter);
            });
        }
    }
    for port in &plan.ports {
        line(&mut text, "network-outbound", &format!("(remote tcp \"*:{port}\")"));
    }
    if plan.resolves_names {
        text.push_str(NAMES);
    }
    if plan.ends_children {
        text.push_str("(allow signal)\n");
    }
    if listens {
        text.push_str("(allow network-inbound)\n");
    }
    text
}

fn line(text: &mut String, operations: &str, filter: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "(allow {operations} {filter})");
}

/// Returns the filter that matches a path and, if it is a directory, everything below it; `None` if
/// the path does not exist. Symbolic links are resolved, because rules match real paths.
fn filter(path: &Path) -> io::Result<Option<String>> {
    use io::ErrorKind::{InvalidData, NotADirectory, NotFound, PermissionDenied};
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) if matches!(error.kind(), NotADirectory | NotFound | PermissionDenied) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let name = real.to_str().ok_or_else(|| io::Error::new(InvalidData, "it is not UTF-8"))?;
    let kind = if real.is_dir() { "subpath" } else { "literal" };
    Ok(Some(format!("({kind} {})", quoted(name))))
}

/// A string of the language.
fn quoted(name: &str) -> String {
    let mut quoted = String::from('"');
    for character in name.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\0'..' ' | '\x7f' => {
                let _ = write!(quoted, "\\x{:02x}", u32::from(character));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The rules of a profile beyond those of every process.
    fn rules(plan: &Lockdown, listens: bool) -> String {
        let mut failures = Vec::new();
        let text = profile(plan, listens, &mut failures);
        assert!(failures.is_empty(), "{failures:?}");
        text.strip_prefix(ALWAYS).unwrap().to_owned()
    }

    #[test]
    fn nothing_is_kept_that_was_not_named() {
        assert_eq!(rules(&Lockdown::new(), false), "");
        assert!(ALWAYS.starts_with("(version 1)\n(deny default)\n"));
        for never in ["process-exec", "process-fork", "network", "/Users", "\"/\"", "file-write*"] {
            assert!(!ALWAYS.contains(never), "{never}");
        }
        for open in ["(allow file-read*)", "(allow mach-lookup)", "(allow sysctl-read)"] {
            assert!(!ALWAYS.contains(open), "{open}");
        }
    }

    #[test]
    fn what_was_named_has_a_rule_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let file = real.join("file");
        fs::write(&file, "").unwrap();
        let plan = Lockdown::new().read(&file).read("/nowhere/at/all").write(&real).connect(443);
        let plan = plan.remove_files(&real).remove_directories(&real);
        let (real, file) = (quoted(real.to_str().unwrap()), quoted(file.to_str().unwrap()));
        assert_eq!(
            rules(&plan, true),
            format!(
                "(allow file-read* file-map-executable (literal {file}))\n\
                 (allow file-read* file-map-executable file-write* (subpath {real}))\n\
                 (allow file-write-unlink (require-all {FILES} (subpath {real})))\n\
                 (allow file-write-unlink (require-all {DIRECTORIES} (subpath {real})))\n\
                 (allow network-outbound (remote tcp \"*:443\"))\n\
                 (allow network-inbound)\n"
            )
        );
        assert_eq!(rules(&Lockdown::new().end_children(), false), "(allow signal)\n");
        let names = rules(&Lockdown::new().resolve_names(), false);
        assert!(names.ends_with(NAMES) && names.contains("\"*:53\""), "{names}");
    }

    #[test]
    fn a_name_cannot_end_its_string() {
        assert_eq!(quoted(r#"/a"b\c"#), r#""/a\"b\\c""#);
        assert_eq!(quoted("/a\nb\tc\x7f"), r#""/a\x0ab\x09c\x7f""#);
        assert_eq!(quoted("/é/*?#;(x)"), "\"/é/*?#;(x)\"");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stands_for_where_it_leads_and_its_name_is_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("\")) (allow file-read*)\n");
        fs::create_dir(&there).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&there, &link).unwrap();
        let rules = rules(&Lockdown::new().read(link), false);
        assert_eq!(rules.lines().count(), 1, "{rules}");
        assert!(rules.ends_with("/\\\")) (allow file-read*)\\x0a\"))\n"), "{rules}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_that_is_not_text_is_told_of() {
        use std::os::unix::ffi::OsStrExt;
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join(std::ffi::OsStr::from_bytes(b"\xff"));
        fs::write(&odd, "").unwrap();
        let mut failures = Vec::new();
        assert_eq!(profile(&Lockdown::new().read(odd), false, &mut failures), ALWAYS);
        assert!(matches!(failures.as_slice(), [LockdownError::Path { .. }]), "{failures:?}");
    }
}
