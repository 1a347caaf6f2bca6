//! What no program does, but a hostile guest might.

use super::{Clock, MADE, memory, read, tree, write};
use crate::dir::Dir;
use crate::node::Body;
use crate::{Errno, Limits, MAX_LEN, PoolUsage};

#[test]
fn a_tree_a_million_deep_is_dropped_without_a_stack() {
    const DEPTH: u64 = 1_000_000;
    let (mut files, top) = tree(&memory(0), Limits::NONE);
    let mut dir = top.number();
    for _ in 0..DEPTH {
        dir = files.add(dir, "d", Body::Dir(Dir::new(dir, "d", false)), 0).unwrap().number();
    }
    assert_eq!(files.usage().files, DEPTH);
    // A recursion per level would overflow this stack.
    let small = std::thread::Builder::new().stack_size(64 << 10);
    let walked = small.spawn(move || {
        let copy = files.clone();
        // Only nodes with a short enough path are listed.
        let mut walk = files.walk(top);
        assert_eq!(walk.by_ref().count(), 2048);
        assert_eq!(walk.skipped(), 1);
        assert!(files.paths_of([crate::Node::own(dir)]).is_empty());
        drop(walk);
        assert_eq!(files.remove("/w/d", true, 0), Ok(()));
        assert_eq!(files.usage().files, 0);
        drop((files, copy));
    });
    walked.unwrap().join().unwrap();
}

#[test]
fn a_million_names_in_one_directory_are_made_listed_and_removed() {
    const NAMES: u64 = 1_000_000;
    let (mut files, top) = tree(
        &memory(0),
        Limits {
            files: NAMES,
            ..Limits::NONE
        },
    );
    let mut clock = Clock::default();
    for number in 0..NAMES {
        let body = Body::File(crate::Content::default());
        files.add(top.number(), &number.to_string(), body, 0).unwrap();
    }
    assert_eq!(files.path_create_directory(0, "more", &mut clock), Err(Errno::Nospc));
    let (mut listed, mut cookie, mut buffer) = (0, 0, vec![0; 1 << 20]);
    loop {
        let used = files.fd_readdir(0, &mut buffer, cookie).unwrap();
        let mut at = 0;
        while at + 24 <= used {
            let length = u32::from_le_bytes(buffer[at + 16..at + 20].try_into().unwrap());
            if at + 24 + length as usize > used {
                break;
            }
            cookie = u64::from_le_bytes(buffer[at..at + 8].try_into().unwrap());
            (listed, at) = (listed + 1, at + 24 + length as usize);
        }
        if used < buffer.len() {
            break;
        }
    }
    assert_eq!(listed, NAMES + 2);
    for number in 0..NAMES {
        files.path_unlink_file(0, &number.to_string(), &mut clock).unwrap();
    }
    assert_eq!(files.usage().files, 0);
}

#[test]
fn links_in_circles_end() {
    let (mut files, _) = tree(&memory(1 << 20), Limits::NONE);
    let mut clock = Clock::default();
    for (target, name) in [("b", "a"), ("a", "b"), ("self/x", "self"), ("../w/up/up", "up")] {
        files.path_symlink(target, 0, name, &mut clock).unwrap();
        assert_eq!(files.path_filestat_get(0, true, "a"), {
            if name == "a" {
                Err(Errno::Noent)
            } else {
                Err(Errno::Loop)
            }
        });
        if name != "a" {
            assert_eq!(files.path_open(0, name, MADE, &mut clock), Err(Errno::Loop), "{name}");
        }
    }
    // 40 links are followed, not 41.
    write(&mut files, "end", b"1");
    let mut target = "end".to_owned();
    for number in 0..41 {
        let name = format!("l{number}");
        files.path_symlink(&target, 0, &name, &mut clock).unwrap();
        let answer = files.path_filestat_get(0, true, &name).map(|stat| stat.size);
        assert_eq!(answer, if number < 40 { Ok(1) } else { Err(Errno::Loop) }, "{number}");
        target = name;
    }
}

#[test]
fn a_hole_takes_nothing_but_counts() {
    const HOLE: u64 = 1 << 40;
    let pool = memory(1 << 20);
    let (mut files, _) = tree(
        &pool,
        Limits {
            bytes: HOLE + 5,
            ..Limits::NONE
        },
    );
    let mut clock = Clock::default();
    let fd = files.path_open(0, "hole", MADE, &mut clock).unwrap();
    assert_eq!(files.fd_pwrite(fd, b"end", HOLE, &mut clock), Ok(3));
    assert_eq!(files.fd_pwrite(fd, b"end", HOLE + 3, &mut clock), Err(Errno::Nospc));
    assert_eq!(files.usage().bytes, HOLE + 3);
    assert!(pool.usage().memory <= 64 << 10);
    let mut bytes = [1; 8];
    assert_eq!(files.fd_pread(fd, &mut bytes, HOLE - 5, &mut clock), Ok(8));
    assert_eq!(&bytes, b"\0\0\0\0\0end");
    assert_eq!(files.fd_filestat_set_size(fd, HOLE / 2, &mut clock), Ok(()));
    assert_eq!((files.usage().bytes, pool.usage().memory), (HOLE / 2, 0));
    for (offset, answer) in [
        (MAX_LEN, Err(Errno::Fbig)),
        (MAX_LEN + 1, Err(Errno::Inval)),
        (u64::MAX, Err(Errno::Inval)),
    ] {
        files.set_limits(Limits::NONE);
        assert_eq!(files.fd_pwrite(fd, b"end", offset, &mut clock), answer, "{offset}");
    }
    assert_eq!(files.fd_filestat_set_size(fd, MAX_LEN, &mut clock), Ok(()));
    assert_eq!(files.fd_filestat_set_size(fd, MAX_LEN + 1, &mut clock), Err(Errno::Inval));
}

#[test]
fn a_listing_ends_however_names_change_under_it() {
    let (mut files, _) = tree(&memory(1 << 20), Limits::NONE);
    let mut clock = Clock::default();
    for number in 0..50 {
        write(&mut files, &format!("f{number}"), b"");
    }
    // Every name is moved to another directory, renamed, replaced, or recreated when listed.
    files.path_create_directory(0, "other", &mut clock).unwrap();
    let (mut cookie, mut met, mut buffer) = (0, Vec::new(), [0; 60]);
    loop {
        let used = files.fd_readdir(0, &mut buffer, cookie).unwrap();
        let length = u32::from_le_bytes(buffer[16..20].try_into().unwrap()) as usize;
        if used < 24 + length {
            break;
        }
        let name = String::from_utf8(buffer[24..24 + length].to_vec()).unwrap();
        cookie = u64::from_le_bytes(buffer[..8].try_into().unwrap());
        met.push(name.clone());
        let (to, index) = (format!("{name}'"), met.len());
        if name.starts_with('f') {
            match index % 4 {
                0 => files.path_rename((0, &name), (0, &format!("other/{name}")), &mut clock),
                1 => files.path_rename((0, &name), (0, &to), &mut clock),
                2 => files
                    .path_unlink_file(0, &name, &mut clock)
                    .map(|()| write(&mut files, &name, b"new")),
                _ => files.path_rename((0, &name), (0, "f49"), &mut clock),
            }
            .unwrap();
        }
        assert!(met.len() < 200, "{met:?}");
    }
    // At most once each.
    let mut once = met.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), met.len(), "{met:?}");
    for number in 0..49 {
        assert!(met.contains(&format!("f{number}")), "f{number}");
    }
}

#[test]
fn all_bounds_at_once() {
    let limits = Limits {
        bytes: 100,
        files: 3,
        open: 2,
        depth: 2,
        path: 20,
    };
    let pool = memory(1 << 20);
    let (mut files, _) = tree(&pool, limits);
    let mut clock = Clock::default();
    let a = files.path_open(0, "a", MADE, &mut clock).unwrap();
    let b = files.path_open(0, "b", MADE, &mut clock).unwrap();
    assert_eq!(files.path_open(0, "c", MADE, &mut clock), Err(Errno::Mfile));
    assert_eq!(files.usage().files, 2, "the file was not made either");
    assert_eq!(files.fd_write(a, &[1; 60], &mut clock), Ok(60));
    assert_eq!(files.fd_write(b, &[1; 60], &mut clock), Err(Errno::Nospc));
    assert_eq!(files.fd_write(b, &[1; 40], &mut clock), Ok(40));
    assert_eq!(files.fd_pwrite(a, &[2; 60], 0, &mut clock), Ok(60), "nothing grows");
    // A file without a name counts until it is closed.
    files.path_unlink_file(0, "a", &mut clock).unwrap();
    assert_eq!(files.usage().files, 2);
    files.path_create_directory(0, "d", &mut clock).unwrap();
    assert_eq!(files.path_create_directory(0, "e", &mut clock), Err(Errno::Nospc));
    assert_eq!(files.path_link((0, false, "b"), (0, "e"), &mut clock), Err(Errno::Nospc));
    assert_eq!(files.path_symlink("x", 0, "e", &mut clock), Err(Errno::Nospc));
    assert_eq!(files.path_rename((0, "b"), (0, "d/b"), &mut clock), Ok(()));
    files.fd_close(a).unwrap();
    assert_eq!((files.usage().files, files.usage().bytes), (2, 40));
    assert_eq!(files.path_symlink(&"x".repeat(61), 0, "e", &mut clock), Err(Errno::Nospc));
    files.path_create_directory(0, "d/e", &mut clock).unwrap();
    files.set_limits(Limits {
        files: 10,
        ..limits
    });
    assert_eq!(files.path_create_directory(0, "d/e/f", &mut clock), Err(Errno::Nametoolong));
    let long = "n".repeat(19);
    assert_eq!(files.path_create_directory(0, &long, &mut clock), Ok(()));
    let longer = "n".repeat(20);
    assert_eq!(files.path_create_directory(0, &longer, &mut clock), Err(Errno::Nametoolong));
    // A tree that moves down moves with its contents.
    files.path_create_directory(0, "top", &mut clock).unwrap();
    assert_eq!(files.path_rename((0, "d"), (0, "top/d"), &mut clock), Err(Errno::Nametoolong));
    assert_eq!(files.path_rename((0, "d/e"), (0, "top/e"), &mut clock), Ok(()));
    assert_eq!(files.path_rename((0, "d"), (0, "d2"), &mut clock), Ok(()));
    // With a lowered limit nothing grows, but everything can be moved and removed.
    files.set_limits(Limits {
        bytes: 0,
        files: 0,
        open: 0,
        ..limits
    });
    assert_eq!(files.path_rename((0, "d2/b"), (0, "b"), &mut clock), Ok(()));
    assert_eq!(files.fd_write(b, b"x", &mut clock), Err(Errno::Nospc));
    assert_eq!(files.fd_pwrite(b, b"x", 0, &mut clock), Ok(1));
    assert_eq!(files.path_unlink_file(0, "b", &mut clock), Ok(()));
    assert_eq!(files.fd_close(b), Ok(None));
    assert_eq!((files.usage().bytes, pool.usage()), (0, PoolUsage::default()));
}

#[test]
fn what_one_state_does_no_other_sees() {
    let pool = memory(1 << 30);
    let (mut files, _) = tree(&pool, Limits::NONE);
    for number in 0..200 {
        write(&mut files, &format!("{number}"), &vec![1; 100_000]);
    }
    let shared = pool.usage();
    let mut forks: Vec<_> = (0..1_000).map(|_| files.clone()).collect();
    assert_eq!(pool.usage(), shared, "a fork costs no room");
    write(&mut forks[3], "7", b"changed");
    assert_eq!(pool.usage().memory, shared.memory + (64 << 10), "one block was copied");
    assert_eq!(&read(&mut forks[3], "7")[..9], b"changed\x01\x01");
    assert_eq!(read(&mut files, "7"), vec![1; 100_000]);
    assert_eq!((forks[3].beyond_whole(&files), forks[4].beyond_whole(&files)), (100_000, 0));
    drop((files, forks));
    assert_eq!(pool.usage(), PoolUsage::default());
}
