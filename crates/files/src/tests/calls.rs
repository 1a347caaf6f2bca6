//! What cannot be compared with Linux: timestamps, rights, devices, trees and the host's namespace.

use std::sync::Arc;

use super::steps::list;
use super::{Clock, EPOCH, MADE, READ, memory, read, tree, write};
use crate::{
    Device, Errno, FdFlags, Files, Kind, Limits, OFlags, OpenOptions, ReadOnly, ReadOnlyEntry,
    SetTime, SetTimes, Stat, Whence, rights,
};

fn files() -> Files {
    tree(&memory(1 << 20), Limits::NONE).0
}

fn stat(files: &Files, path: &str) -> Stat {
    files.path_filestat_get(0, false, path).unwrap()
}

/// Whether the times of access, modification and status change have moved.
fn moved(before: Stat, after: Stat) -> (bool, bool, bool) {
    (after.atime > before.atime, after.mtime > before.mtime, after.ctime > before.ctime)
}

#[test]
fn times_move_by_what_happened_and_by_nothing_else() {
    let mut files = files();
    let mut clock = Clock::default();
    write(&mut files, "f", b"1");
    files.path_create_directory(0, "d", &mut clock).unwrap();
    let fd = files.path_open(0, "f", MADE, &mut clock).unwrap();
    let dir = files.path_open(0, "d", READ, &mut clock).unwrap();
    let mut check = |files: &mut Files,
                     path: &str,
                     expected: (bool, bool, bool),
                     act: &mut dyn FnMut(&mut Files, &mut Clock)| {
        let before = stat(files, path);
        act(files, &mut clock);
        assert_eq!(moved(before, stat(files, path)), expected, "{path}");
    };
    let (none, all, status) = ((false, false, false), (false, true, true), (false, false, true));
    check(&mut files, "f", none, &mut |files, clock| {
        files.fd_pread(fd, &mut [0; 9], 0, clock).unwrap();
        files.fd_write(fd, b"", clock).unwrap();
        files.fd_seek(fd, 0, Whence::End).unwrap();
        files.path_filestat_set_times(0, true, "f", SetTimes::default(), clock).unwrap();
    });
    check(&mut files, "f", all, &mut |files, clock| {
        files.fd_write(fd, b"x", clock).unwrap();
    });
    check(&mut files, "f", all, &mut |files, clock| {
        files.fd_filestat_set_size(fd, 2, clock).unwrap();
    });
    check(&mut files, "f", status, &mut |files, clock| {
        files.path_link((0, false, "f"), (0, "d/g"), clock).unwrap();
    });
    check(&mut files, "f", status, &mut |files, clock| {
        files.path_rename((0, "d/g"), (0, "d/h"), clock).unwrap();
    });
    check(&mut files, "d", none, &mut |files, clock| {
        list(files, dir).unwrap();
        write(files, "d/h", b"2");
        assert_eq!(files.path_create_directory(0, "d/h", clock), Err(Errno::Exist));
    });
    check(&mut files, "d", all, &mut |files, clock| {
        files.path_unlink_file(0, "d/h", clock).unwrap();
    });
    check(&mut files, "d", all, &mut |files, clock| {
        files.path_open(0, "d/new", MADE, clock).unwrap();
    });
    check(&mut files, "f", (true, false, true), &mut |files, clock| {
        let times = SetTimes {
            atime: SetTime::Now,
            mtime: SetTime::Keep,
        };
        files.fd_filestat_set_times(fd, times, clock).unwrap();
    });
    let times = SetTimes {
        atime: SetTime::To(5),
        mtime: SetTime::To(6),
    };
    files.fd_filestat_set_times(fd, times, &mut clock).unwrap();
    assert_eq!((stat(&files, "f").atime, stat(&files, "f").mtime), (5, 6));
}

#[test]
fn on_a_clock_that_stands_still_no_two_changes_have_the_same_time() {
    struct Still;
    impl crate::World for Still {
        fn now(&mut self) -> u64 {
            EPOCH
        }
        fn random(&mut self, _: &mut [u8]) -> bool {
            false
        }
    }
    let mut files = files();
    files.set_distinct_times(true);
    for name in ["a", "b", "c"] {
        files.path_create_directory(0, name, &mut Still).unwrap();
    }
    let mut fork = files.clone();
    for files in [&mut files, &mut fork] {
        files.path_create_directory(0, "d", &mut Still).unwrap();
    }
    let times = ["a", "b", "c", "d"].map(|name| stat(&files, name).mtime - EPOCH);
    assert_eq!(times, [0, 1_000, 2_000, 3_000]);
    assert_eq!(stat(&fork, "d"), stat(&files, "d"), "numbers and times repeat");
}

#[test]
fn rights_are_those_that_wasmtime_reports() {
    let mut files = files();
    let mut clock = Clock::default();
    let given = files.fd_fdstat_get(0).unwrap();
    assert_eq!((given.kind, given.flags), (Kind::Directory, FdFlags(0)));
    // As in wasmtime-wasi 48.
    assert_eq!((given.rights, given.inheriting), (0x7bf_fe00 & !(1 << 19 | 1 << 22), 0xff7_ffff));
    let all = (1 << 30) - 1;
    for (read, write, rights) in [
        (true, true, all),
        (true, false, all & !rights::FD_WRITE),
        (false, true, all & !(rights::FD_READ | 1 << 14)),
        (false, false, all & !rights::FD_WRITE),
    ] {
        let wanted = u64::from(read) * rights::FD_READ + u64::from(write) * rights::FD_WRITE;
        super::write(&mut files, "f", b"");
        let options = OpenOptions {
            rights: wanted,
            flags: FdFlags(5),
            ..READ
        };
        let fd = files.path_open(0, "f", options, &mut clock).unwrap();
        let stat = files.fd_fdstat_get(fd).unwrap();
        assert_eq!((stat.kind, stat.flags, stat.rights), (Kind::File, FdFlags(5), rights));
        assert_eq!(stat.to_bytes()[..4], [4, 0, 5, 0]);
        assert_eq!(files.fd_fdstat_set_flags(fd, FdFlags(FdFlags::SYNC)), Err(Errno::Inval));
        files.fd_fdstat_set_flags(fd, FdFlags(0)).unwrap();
        assert_eq!(files.fd_fdstat_get(fd).unwrap().flags, FdFlags(0));
        let answer = files.fd_write(fd, b"x", &mut clock);
        assert_eq!(answer, if write { Ok(1) } else { Err(Errno::Badf) });
        let answer = files.fd_read(fd, &mut [0], &mut clock);
        assert_eq!(answer.is_ok(), read || !write);
    }
    files.path_create_directory(0, "d", &mut clock).unwrap();
    let dir = files.path_open(0, "d", READ, &mut clock).unwrap();
    let stat = files.fd_fdstat_get(dir).unwrap();
    assert_eq!(stat.rights, all & !(1 << 2 | 1 << 19 | 1 << 22 | rights::FD_WRITE));
}

#[test]
fn numbers_are_the_lowest_that_are_free_and_move_with_what_they_stand_for() {
    let mut files = files();
    let mut clock = Clock::default();
    write(&mut files, "f", b"abcdef");
    let open = |files: &mut Files| files.path_open(0, "f", READ, &mut Clock::default()).unwrap();
    assert_eq!([open(&mut files), open(&mut files), open(&mut files)], [1, 2, 3]);
    files.fd_seek(3, 4, Whence::Set).unwrap();
    assert_eq!(files.fd_renumber(3, 1), Ok(None));
    assert_eq!((files.fd_tell(1), files.fd_tell(3)), (Ok(4), Err(Errno::Badf)));
    assert_eq!(files.usage().open, 2);
    assert_eq!(files.open_foreign(77, false), Ok(3));
    assert_eq!((files.foreign(3), files.fd_tell(3)), (Some(77), Err(Errno::Badf)));
    assert_eq!(files.fd_renumber(2, 3), Ok(Some(77)));
    assert_eq!((open(&mut files), files.fd_close(9)), (2, Err(Errno::Badf)));
    // Open files are part of the state.
    let mut fork = files.clone();
    let mut byte = [0];
    assert_eq!(fork.fd_read(1, &mut byte, &mut clock).map(|_| byte[0]), Ok(b'e'));
    files.fd_close(1).unwrap();
    assert_eq!((fork.fd_tell(1), files.fd_tell(1)), (Ok(5), Err(Errno::Badf)));
    // They can be reopened from a document.
    let mut other = tree(&memory(1 << 20), Limits::NONE).0;
    write(&mut other, "f", b"abcdef");
    for (fd, open) in fork.open_files().collect::<Vec<_>>() {
        other.reopen(fd, &open).unwrap();
    }
    assert!(other.open_files().eq(fork.open_files()));
    assert_eq!(other.usage().open, fork.usage().open);
    let (_, open) = fork.open_files().nth(1).unwrap();
    assert_eq!(other.reopen(u32::MAX, &open), Err(Errno::Badf));
}

#[test]
fn devices_are_what_programs_expect() {
    let mut files = files();
    let mut clock = Clock::default();
    for (name, device) in
        [("null", Device::Null), ("zero", Device::Zero), ("urandom", Device::Random)]
    {
        let path = format!("/dev/{name}");
        let node = files.make_device(&path, device).unwrap();
        assert_eq!(files.stat(node).unwrap().kind, Kind::CharacterDevice);
        let options = OpenOptions {
            oflags: OFlags(OFlags::CREAT | OFlags::TRUNC),
            ..MADE
        };
        let fd = files.path_open(0, &path, options, &mut clock).unwrap();
        assert_eq!(files.fd_write(fd, b"gone", &mut clock), Ok(4));
        let mut bytes = [1; 3];
        let (count, byte) = match device {
            Device::Null => (0, 1),
            Device::Zero => (3, 0),
            Device::Random => (3, 7),
        };
        assert_eq!(files.fd_read(fd, &mut bytes, &mut clock), Ok(count));
        assert_eq!(bytes, [byte; 3]);
        assert_eq!(files.fd_seek(fd, 5, Whence::Set), Ok(0));
        assert_eq!(files.fd_tell(fd), Ok(0), "it is always at its start");
        assert_eq!(files.fd_filestat_set_size(fd, 0, &mut clock), Err(Errno::Inval));
        assert_eq!(files.fd_allocate(fd), Err(Errno::Inval));
        let stat = files.fd_fdstat_get(fd).unwrap();
        assert_eq!(stat.rights, 1 << 1 | 1 << 6 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 21);
        assert_eq!(files.path_unlink_file(0, &path, &mut clock), Err(Errno::Perm));
        let link = files.path_link((0, false, &path), (0, "mine"), &mut clock);
        assert_eq!(link, Err(Errno::Perm));
        let is_dir = OpenOptions {
            oflags: OFlags(OFlags::DIRECTORY),
            ..READ
        };
        assert_eq!(files.path_open(0, &path, is_dir, &mut clock), Err(Errno::Notdir));
    }
    assert_eq!(files.usage().files, 0);
}

/// A directory `lib` with the file `code.py`, below a root.
struct Packed;

impl ReadOnly for Packed {
    fn stat(&self, node: u64) -> Option<ReadOnlyEntry> {
        let kind = if node == 2 {
            Kind::File
        } else {
            Kind::Directory
        };
        (node < 3).then_some(ReadOnlyEntry {
            kind,
            size: 5 * u64::from(node == 2),
            mtime: 9,
        })
    }

    fn lookup(&self, dir: u64, name: &str) -> Option<u64> {
        [("lib", 1), ("code.py", 2)]
            .into_iter()
            .find(|(n, at)| *n == name && *at == dir + 1)
            .map(|f| f.1)
    }

    fn parent(&self, node: u64) -> u64 {
        node.saturating_sub(1)
    }

    fn name(&self, node: u64) -> Option<&str> {
        ["", "lib", "code.py"].get(node as usize).copied()
    }

    fn entry(&self, dir: u64, index: u64) -> Option<(&str, u64)> {
        match (dir, index) {
            (0, 0) => Some(("lib", 1)),
            (1, 0) => Some(("code.py", 2)),
            _ => None,
        }
    }

    fn read_at(&self, _: u64, at: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let rest = &b"x = 1"[(at as usize).min(5)..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

#[test]
fn a_packed_tree_is_read_and_never_written() {
    let mut files = files();
    let mut clock = Clock::default();
    let packed = files.attach(Arc::new(Packed), "/usr/packed").unwrap();
    files.mount("/usr/packed", packed).unwrap();
    assert_eq!(files.give(packed, "/elsewhere"), Ok(1));
    for (fd, path) in [(1, "lib/code.py"), (0, "/usr/packed/lib/./code.py"), (0, "link")] {
        let _ = files.path_symlink("../usr/packed/lib/../lib/code.py", 0, "link", &mut clock);
        let fd = files.path_open(fd, path, READ, &mut clock).unwrap();
        let mut bytes = [0; 9];
        assert_eq!(files.fd_read(fd, &mut bytes, &mut clock), Ok(5));
        assert_eq!((&bytes[..5], files.fd_tell(fd)), (&b"x = 1"[..], Ok(5)));
        let stat = files.fd_filestat_get(fd).unwrap();
        assert_eq!((stat.dev, stat.ino, stat.size, stat.mtime), (2, 3, 5, 9));
        assert_eq!(files.fd_seek(fd, -1, Whence::End), Ok(4));
        assert_eq!(files.fd_write(fd, b"x", &mut clock), Err(Errno::Badf));
        assert_eq!(files.fd_filestat_set_size(fd, 0, &mut clock), Err(Errno::Perm));
        let times = SetTimes {
            atime: SetTime::Now,
            mtime: SetTime::Now,
        };
        assert_eq!(files.fd_filestat_set_times(fd, times, &mut clock), Err(Errno::Perm));
    }
    assert_eq!(files.path_open(1, "lib/code.py", MADE, &mut clock), Err(Errno::Perm));
    assert_eq!(files.path_open(1, "lib/new", MADE, &mut clock), Err(Errno::Perm));
    assert_eq!(files.path_create_directory(1, "new", &mut clock), Err(Errno::Perm));
    assert_eq!(files.path_create_directory(1, "lib", &mut clock), Err(Errno::Exist));
    assert_eq!(files.path_unlink_file(1, "lib/code.py", &mut clock), Err(Errno::Perm));
    assert_eq!(files.path_remove_directory(1, "lib", &mut clock), Err(Errno::Perm));
    assert_eq!(files.path_rename((1, "lib/code.py"), (0, "c"), &mut clock), Err(Errno::Perm));
    assert_eq!(files.path_link((1, false, "lib/code.py"), (0, "c"), &mut clock), Err(Errno::Perm));
    let lib = files.path_open(1, "lib", READ, &mut clock).unwrap();
    let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let listed = |files: &mut Files, fd| {
        list(files, fd).unwrap().into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(listed(&mut files, lib), names(&[".", "..", "code.py"]));
    let around = files.path_open(0, "/usr/packed/..", READ, &mut clock).unwrap();
    assert_eq!(listed(&mut files, around), names(&[".", "..", "packed"]));
    for (fd, cookie) in [(0, u64::MAX), (1, u64::MAX), (1, u64::MAX - 1), (lib, u64::MAX)] {
        assert_eq!(files.fd_readdir(fd, &mut [0; 99], cookie), Ok(0), "{cookie}");
    }
    // Names of the host cannot be changed.
    for path in ["/usr/new", "/new", "../new"] {
        assert_eq!(files.path_create_directory(0, path, &mut clock), Err(Errno::Perm), "{path}");
    }
    assert_eq!(files.path_remove_directory(0, "../w", &mut clock), Err(Errno::Perm));
    assert_eq!(files.path_rename((0, "../w"), (0, "x"), &mut clock), Err(Errno::Perm));
}

#[test]
fn what_the_host_put_among_the_guests_names_stays() {
    let mut files = files();
    let mut clock = Clock::default();
    let packed = files.attach(Arc::new(Packed), "/usr/packed").unwrap();
    files.mount("/w/sub/packed", packed).unwrap();
    files.mount("/w/own", files.find("/w/sub").unwrap()).unwrap();
    files.make_portal("/w/host", 1).unwrap();
    write(&mut files, "f", b"x");
    files.path_create_directory(0, "d", &mut clock).unwrap();
    for path in ["own", "host"] {
        assert_eq!(files.path_remove_directory(0, path, &mut clock), Err(Errno::Busy), "{path}");
        for (from, to) in [(path, "x"), ("d", path)] {
            let answer = files.path_rename((0, from), (0, to), &mut clock);
            assert_eq!(answer, Err(Errno::Busy), "{from} {to}");
        }
        assert_eq!(files.path_unlink_file(0, path, &mut clock), Err(Errno::Isdir));
    }
    // The directory around a mount moves with it.
    assert_eq!(files.path_rename((0, "sub"), (0, "d/sub"), &mut clock), Ok(()));
    assert_eq!(files.path_filestat_get(0, true, "d/sub/packed/lib/code.py").map(|s| s.size), Ok(5));
    let inside = files.path_filestat_get(0, true, "d/sub/packed/..").unwrap();
    assert_eq!(inside, files.path_filestat_get(0, true, "own").unwrap());
}

#[test]
fn a_directory_can_be_seen_in_two_places() {
    let mut files = files();
    let own = files.find("/w").unwrap();
    files.mount("/mnt/data", own).unwrap();
    write(&mut files, "/mnt/data/f", b"x");
    assert_eq!(read(&mut files, "f"), b"x");
    assert_eq!(files.path_filestat_get(0, true, "/mnt/data/../w/f").map(|s| s.size), Ok(1));
    let rename = files.path_rename((0, "/mnt/data/f"), (0, "g"), &mut Clock::default());
    assert_eq!((rename, read(&mut files, "g")), (Ok(()), b"x".to_vec()));
}

#[test]
fn a_path_that_leads_out_is_told_with_the_rest_of_it() {
    let mut files = files();
    let mut clock = Clock::default();
    files.make_portal("/mnt/host", 42).unwrap();
    files.path_symlink("../mnt/host/dir", 0, "out", &mut clock).unwrap();
    let out = |follow, path: &str| files.portal(0, follow, path);
    assert_eq!(out(true, "/mnt/host/a/../b/"), Some((42, "a/../b/".into())));
    assert_eq!(out(true, "/mnt/host"), Some((42, String::new())));
    assert_eq!(out(true, "/mnt//host/"), Some((42, String::new())));
    assert_eq!(out(true, "out"), Some((42, "dir".into())));
    assert_eq!(out(true, "out/x/y"), Some((42, "dir/x/y".into())));
    assert_eq!((out(false, "out"), out(true, "mine"), out(true, "/mnt")), (None, None, None));
    assert_eq!(files.path_filestat_get(0, true, "out"), Err(Errno::Perm));
    let mnt = files.path_open(0, "/mnt", READ, &mut clock).unwrap();
    assert!(list(&mut files, mnt).unwrap().contains(&("host".into(), 3)));
    assert_eq!(files.path_remove_directory(0, "/mnt/host", &mut clock), Err(Errno::Perm));
}

#[test]
fn entries_of_a_list_are_laid_out_as_wasi_has_them() {
    let mut files = files();
    write(&mut files, "name", b"x");
    let mut buffer = [0xee; 200];
    let used = files.fd_readdir(0, &mut buffer, 0).unwrap();
    assert_eq!(used, 3 * 24 + 1 + 2 + 4);
    let own = files.fd_filestat_get(0).unwrap().ino;
    assert_eq!(buffer[..8], 1u64.to_le_bytes());
    assert_eq!(buffer[8..16], own.to_le_bytes());
    assert_eq!(buffer[16..25], [1, 0, 0, 0, 3, 0, 0, 0, b'.']);
    let last = &buffer[used - 28..used];
    assert_eq!(last[8..16], stat(&files, "name").ino.to_le_bytes());
    assert_eq!(last[16..], *b"\x04\0\0\0\x04\0\0\0name");
    let next = u64::from_le_bytes(last[..8].try_into().unwrap());
    assert_eq!(files.fd_readdir(0, &mut buffer, next), Ok(0));
    // An entry that does not fit is truncated, and the buffer is full.
    for size in 0..used {
        assert_eq!(files.fd_readdir(0, &mut buffer[..size], 0), Ok(size));
    }
}

#[test]
fn a_program_that_makes_a_file_its_own_finds_it_whole() {
    let mut files = files();
    let mut clock = Clock::default();
    write(&mut files, "kept", b"old");
    let old = files.path_open(0, "kept", READ, &mut clock).unwrap();
    write(&mut files, "kept.tmp", b"new");
    files.path_rename((0, "kept.tmp"), (0, "kept"), &mut clock).unwrap();
    let mut bytes = [0; 3];
    files.fd_read(old, &mut bytes, &mut clock).unwrap();
    assert_eq!((&bytes, read(&mut files, "kept")), (b"old", b"new".to_vec()));
    assert_eq!(files.fd_filestat_get(old).unwrap().nlink, 0);
    assert_eq!((files.usage().bytes, files.usage().files), (6, 2));
    files.fd_close(old).unwrap();
    assert_eq!((files.usage().bytes, files.usage().files), (3, 1));
}
