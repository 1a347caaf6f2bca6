//! Tries each line of the table of deliberate differences from Linux in the crate's documentation.

use super::{Clock, MADE, READ, memory, tree, write};
use crate::{Errno, FdFlags, Files, Limits, OFlags, OpenOptions, SetTimes};

type Check = fn(&mut Files, &mut Clock);

/// One check for each line of the table.
const CHECKS: [(&str, Check); 10] = [
    ("Time of last access", |files, clock| {
        let fd = files.path_open(0, "f", READ, clock).unwrap();
        let before = files.fd_filestat_get(fd).unwrap();
        files.fd_read(fd, &mut [0; 9], clock).unwrap();
        assert_eq!(files.fd_filestat_get(fd), Ok(before));
    }),
    ("Size of a directory", |files, clock| {
        files.path_create_directory(0, "d", clock).unwrap();
        assert_eq!(files.path_filestat_get(0, false, "d").map(|stat| stat.size), Ok(0));
    }),
    ("Names that the host made", |files, clock| {
        assert_eq!(files.path_create_directory(0, "../d", clock), Err(Errno::Perm));
        assert_eq!(files.path_create_directory(0, "../w", clock), Err(Errno::Exist));
    }),
    ("`fd_allocate`", |files, clock| {
        let fd = files.path_open(0, "f", MADE, clock).unwrap();
        assert_eq!(files.fd_allocate(fd), Err(Errno::Notsup));
    }),
    ("`DSYNC`, `RSYNC`, `SYNC`", |files, clock| {
        for flag in [FdFlags::DSYNC, FdFlags::RSYNC, FdFlags::SYNC] {
            let options = OpenOptions {
                flags: FdFlags(flag),
                ..READ
            };
            assert_eq!(files.path_open(0, "f", options, clock), Err(Errno::Notsup));
        }
    }),
    ("`DIRECTORY` with `CREAT`, `EXCL` or `TRUNC`", |files, clock| {
        for flag in [OFlags::CREAT, OFlags::EXCL, OFlags::TRUNC] {
            let options = OpenOptions {
                oflags: OFlags(OFlags::DIRECTORY | flag),
                ..READ
            };
            assert_eq!(files.path_open(0, "f", options, clock), Err(Errno::Inval));
        }
    }),
    ("`path_link` that follows", |files, clock| {
        assert_eq!(files.path_link((0, true, "f"), (0, "g"), clock), Err(Errno::Inval));
    }),
    ("Setting no time", |files, clock| {
        let times = SetTimes::default();
        let answer = files.path_filestat_set_times(0, true, "none", times, clock);
        assert_eq!(answer, Err(Errno::Noent));
    }),
    ("Names made during a listing", |files, clock| {
        let mut buffer = [0; 25];
        assert_eq!(files.fd_readdir(0, &mut buffer, 0), Ok(25));
        files.path_create_directory(0, "new", clock).unwrap();
        let mut buffer = [0; 200];
        assert_eq!(files.fd_readdir(0, &mut buffer, 1), Ok(24 + 2 + 24 + 1));
    }),
    ("`..` of a removed directory", |files, clock| {
        files.path_create_directory(0, "a", clock).unwrap();
        files.path_create_directory(0, "a/b", clock).unwrap();
        let inner = files.path_open(0, "a/b", READ, clock).unwrap();
        files.path_remove_directory(0, "a/b", clock).unwrap();
        assert!(files.path_filestat_get(inner, true, "..").is_ok());
        files.path_remove_directory(0, "a", clock).unwrap();
        assert_eq!(files.path_filestat_get(inner, true, ".."), Err(Errno::Noent));
    }),
];

#[test]
fn every_line_holds() {
    let lines: Vec<&str> = include_str!("../lib.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("//! | ")?.split(" | ").next())
        .skip(1)
        .collect();
    assert_eq!(lines, CHECKS.map(|(line, _)| line));
    for (_, check) in CHECKS {
        let (mut files, _) = tree(&memory(1 << 20), Limits::NONE);
        write(&mut files, "f", b"content");
        check(&mut files, &mut Clock::default());
    }
}
