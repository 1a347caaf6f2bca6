//! A bundle on restricted machines: no `/proc`, no `/tmp`, no writable directory, blocked system
//! calls. It works, or says what the machine lacks and how to fix it.

use super::bundle::path;
use super::*;

/// Runs code that writes and reads a file from the bundle, in a mount namespace after the commands
/// in `prepare`. Returns `None` if the system allows no such namespace.
fn without(name: &str, prepare: &str) -> Option<Ran> {
    let id = Command::new("id").arg("-u").output().unwrap();
    let how = if id.stdout == b"0\n" { "-m" } else { "-rm" };
    let can = Command::new("unshare").args([how, "true"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        println!("skipped: {name}: no mount namespace can be had here");
        return None;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_belljar"));
    let dir = |path: &Path| path.parent().unwrap().display().to_string();
    // Both may lie below a hidden directory.
    let script = format!(
        "mount --bind {} /srv\nmount --bind {} /mnt\n{prepare}\n\
         exec env -i /srv/belljar run --bundle /mnt/bundle -c \"open('a', 'w').write('1') and print(open('a').read())\"",
        dir(program),
        dir(Path::new(path())),
    );
    Some(Command::new("unshare").args([how, "sh", "-ec", &script]).output().unwrap().into())
}

#[test]
fn what_is_missing_is_not_needed() {
    for (name, prepare) in [
        ("no /proc", "mount -t tmpfs none /proc"),
        ("only /tmp can be written", "mount -o remount,ro,bind /\nmount -t tmpfs none /tmp"),
        ("/tmp cannot be written", "mount -t tmpfs -o ro none /tmp"),
        (
            "nothing can be written",
            "mount -t tmpfs -o ro none /tmp\nmount -t tmpfs -o ro none /dev/shm\n\
             mount -t tmpfs -o ro none /var/tmp",
        ),
    ] {
        if let Some(ran) = without(name, prepare) {
            assert_eq!(ran.stdout, "1\n", "{name}: {}", ran.page());
        }
    }
}

#[test]
fn what_is_needed_is_named() {
    if let Some(ran) = without("no code can be mapped", "mount -o remount,bind,noexec /mnt") {
        let ran = ran.exits(3);
        assert!(ran.stderr.contains("must not be mounted with noexec"), "{}", ran.stderr);
    }
    let small = Command::new("sh")
        .args(["-c", "ulimit -v 4000000; exec \"$0\" run --bundle \"$1\" -c 'print(1)'"])
        .args([env!("CARGO_BIN_EXE_belljar"), path()])
        .output();
    let ran = Ran::from(small.unwrap()).exits(3);
    assert!(ran.stderr.contains("4 GiB of address space"), "{}", ran.stderr);
}

/// `userfaultfd`, `memfd_create`, `io_uring_setup`, `statx`, `rseq` and `mbind`, some of which
/// container runtimes block.
#[cfg(target_arch = "x86_64")]
#[test]
fn system_calls_that_are_refused_are_not_needed() {
    let deny = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/deny.py");
    for numbers in ["323", "319", "323,319,425,332,334,237"] {
        let mut command = Command::new("python3");
        command.arg(&deny).args([numbers, env!("CARGO_BIN_EXE_belljar")]);
        command.args(["run", "--bundle", path(), "-c", "print(1)"]).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let ran: Ran = command.output().unwrap().into();
        if ran.stderr.starts_with("prctl: ") {
            println!("skipped: {}", ran.stderr);
            return;
        }
        assert_eq!(ran.exits(0).stdout, "1\n");
    }
}
