//! The host's own operations.

use super::{Clock, MADE, memory, read, tree, write};
use crate::{Errno, FdFlags, Files, Kind, Limits, OpenFile, OpenOn};

fn paths(files: &Files) -> Vec<String> {
    files.walk(files.find("/w").unwrap()).map(|found| found.path).collect()
}

#[test]
fn what_the_host_puts_the_guest_finds_and_the_other_way() {
    let pool = memory(1 << 20);
    let (mut files, top) = tree(
        &pool,
        Limits {
            files: 6,
            bytes: 10,
            ..Limits::NONE
        },
    );
    let content = pool.content(b"12345").unwrap();
    let node = files.put_file("/w/a/b/f", content.clone(), 7).unwrap();
    assert_eq!(files.stat(node).unwrap().mtime, 7);
    assert_eq!(read(&mut files, "a/b/f"), b"12345");
    assert_eq!(files.put_file("/w/a/b/f", content.clone(), 8), Ok(node), "it is the same file");
    files.put_link("/w/a/link", "b/f", 9).unwrap();
    assert_eq!(paths(&files), ["a", "a/b", "a/b/f", "a/link"]);
    assert_eq!((files.usage().files, files.usage().bytes), (4, 8));
    assert_eq!(files.put_file("/w/g", content.clone(), 9), Err(Errno::Nospc));
    files.put_name("/w/g", node, 9).unwrap();
    assert_eq!(files.stat(node).unwrap().nlink, 2);
    for (path, errno) in [
        ("/w/a", Errno::Isdir),
        ("/w/a/link", Errno::Loop),
        ("/w/a/link/x", Errno::Loop),
        ("/w/g/x", Errno::Notdir),
        ("/w/a/../x", Errno::Inval),
        ("/w/\0", Errno::Inval),
        ("/new/x", Errno::Perm),
        ("/", Errno::Exist),
    ] {
        assert_eq!(files.put_file(path, content.clone(), 9), Err(errno), "{path}");
    }
    assert_eq!(files.find("/w/a/link/x"), Err(Errno::Loop));
    assert_eq!(files.find("/w/none"), Err(Errno::Noent));
    assert_eq!(files.find_through("/w/a/link"), Ok(node));
    assert_eq!(files.rename("/w/a/b", "/w/a/b/c", 10), Err(Errno::Notdir).or(Err(Errno::Inval)));
    assert_eq!(files.rename("/w/a/b", "/w/g", 10), Err(Errno::Exist));
    assert_eq!(files.rename("/w/a/b", "/w/c", 10), Ok(()));
    let c = files.find("/w/c").unwrap();
    assert_eq!(files.paths_of([c])[&c], "/w/c");
    assert_eq!(files.remove("/w/c", false, 10), Err(Errno::Notempty));
    assert_eq!(files.remove("/w/c", true, 10), Ok(()));
    assert_eq!(files.remove("/w", true, 10), Err(Errno::Perm));
    assert_eq!(paths(&files), ["a", "a/link", "g"]);
    assert_eq!(files.names(top).map(|(name, _)| name).collect::<Vec<_>>(), ["a", "g"]);
    assert_eq!(files.paths_of([node])[&node], "/w/g");
}

#[test]
fn changes_are_what_was_made_and_what_was_written() {
    let (mut files, top) = tree(&memory(1 << 20), Limits::NONE);
    let mut clock = Clock::default();
    for name in ["same", "written", "moved", "removed", "touched"] {
        write(&mut files, name, b"x");
    }
    files.path_create_directory(0, "dir", &mut clock).unwrap();
    write(&mut files, "dir/inner", b"x");
    let before = files.clone();
    assert_eq!((files.changes(&before, top), files.is_same(&before)), (Vec::new(), true));
    let version = files.version();
    let fd = files.path_open(0, "same", MADE, &mut clock).unwrap();
    assert_eq!((files.version(), files.is_same(&before)), (version, true), "opening is no change");
    files.fd_close(fd).unwrap();
    let mut clock = Clock(super::EPOCH + 1_000_000);
    let fd = files.path_open(0, "written", MADE, &mut clock).unwrap();
    files.fd_write(fd, b"y", &mut clock).unwrap();
    files.path_rename((0, "moved"), (0, "here"), &mut clock).unwrap();
    files.path_rename((0, "dir"), (0, "other"), &mut clock).unwrap();
    files.path_unlink_file(0, "removed", &mut clock).unwrap();
    files.path_symlink("same", 0, "link", &mut clock).unwrap();
    let changed: Vec<_> = files.changes(&before, top).into_iter().map(|f| f.path).collect();
    assert_eq!(changed, ["written", "here", "other/inner", "link"]);
    assert!(files.version() > version);
}

/// Whatever a sequence of calls does, the changes are what a comparison of every path finds.
#[test]
fn changes_are_those_of_a_comparison_of_every_path() {
    let mut clock = Clock(super::EPOCH + 1_000_000);
    let names = ["a", "b", "a/a", "a/b", "b/a", "b/b", "a/a/a", "b/a/b"];
    let (mut seed, mut found) = (1_u64, 0);
    for _ in 0..300 {
        let (mut files, top) = tree(&memory(1 << 20), Limits::NONE);
        let mut before = files.clone();
        for _ in 0..30 {
            let mut draw = |most: usize| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040);
                (seed >> 33) as usize % most
            };
            let (one, other) = (names[draw(names.len())], names[draw(names.len())]);
            // Many of the calls fail, as they may.
            match draw(8) {
                0 | 1 => drop(files.path_create_directory(0, one, &mut clock)),
                2 | 3 => {
                    if let Ok(fd) = files.path_open(0, one, MADE, &mut clock) {
                        let _ = files.fd_write(fd, b"x", &mut clock);
                        files.fd_close(fd).unwrap();
                    }
                }
                4 | 5 => drop(files.path_rename((0, one), (0, other), &mut clock)),
                6 => drop(files.path_unlink_file(0, one, &mut clock)),
                _ => before = files.clone(),
            }
            let is_change = |path: &str, node| {
                let child = |dir, name| Some(before.child(dir, name).ok()??.0);
                let was = path.split('/').try_fold(top, child);
                was != Some(node) || !files.is_unchanged(&before, node)
            };
            let leaves = files.walk(top).filter(|found| found.kind != Kind::Directory);
            let expected: Vec<_> =
                leaves.filter(|found| is_change(&found.path, found.node)).collect();
            assert_eq!(files.changes(&before, top), expected);
            found += expected.len();
        }
    }
    assert!(found > 1_000, "{found}");
}

#[test]
fn an_open_file_without_a_name_comes_back() {
    let pool = memory(1 << 20);
    let (mut files, _) = tree(&pool, Limits::NONE);
    let mut clock = Clock::default();
    let node = files.put_nameless(pool.content(b"secret").unwrap(), 5).unwrap();
    assert_eq!((files.usage().files, files.usage().bytes), (1, 6));
    let open = OpenFile {
        on: OpenOn::Node(node),
        read: true,
        write: true,
        flags: FdFlags(0),
        offset: 2,
        given: false,
    };
    files.reopen(3, &open).unwrap();
    files.reopen(5, &open).unwrap();
    let mut bytes = [0; 9];
    assert_eq!(files.fd_read(3, &mut bytes, &mut clock), Ok(4));
    assert_eq!(files.fd_close(3), Ok(None));
    let stat = files.fd_filestat_get(5).unwrap();
    assert_eq!((stat.nlink, stat.kind), (0, Kind::File));
    files.fd_close(5).unwrap();
    assert_eq!((files.usage().files, files.usage().bytes, pool.usage().memory), (0, 0, 0));
}

#[test]
fn paths_of_many_nodes_are_found_in_one_walk() {
    const COUNT: usize = 3_000;
    let (mut files, top) = tree(&memory(64 << 20), Limits::NONE);
    let mut clock = Clock::default();
    let nameless = files.path_open(0, "nameless", MADE, &mut clock).unwrap();
    let nodes: Vec<_> = (0..COUNT)
        .map(|number| {
            write(&mut files, &format!("{number}"), b"");
            files.find(&format!("/w/{number}")).unwrap()
        })
        .collect();
    let gone = files.find("/w/nameless").unwrap();
    files.path_unlink_file(0, "nameless", &mut clock).unwrap();
    assert!(files.paths_of([gone]).is_empty());
    let paths = files.paths_of(nodes.iter().copied().chain([gone, top, files.root()]));
    assert_eq!(paths.len(), COUNT + 2);
    assert_eq!((&*paths[&top], &*paths[&files.root()]), ("/w", "/"));
    for (number, node) in nodes.iter().enumerate() {
        assert_eq!(paths[node], format!("/w/{number}"));
    }
    files.fd_close(nameless).unwrap();
}

#[test]
fn what_a_path_leads_to_is_below_a_directory_or_not() {
    let pool = memory(1 << 20);
    let (mut files, top) = tree(&pool, Limits::NONE);
    let other = files.make_dirs("/other", true).unwrap();
    files.put_dir("/w/d", 1).unwrap();
    let inside = files.put_file("/w/d/f", pool.content(b"x").unwrap(), 1).unwrap();
    let outside = files.put_file("/other/g", pool.content(b"x").unwrap(), 1).unwrap();
    for (name, target) in [("in", "d/f"), ("out", "../other/g"), ("dir", "/w/."), ("none", "d/x")] {
        files.put_link(&format!("/w/{name}"), target, 1).unwrap();
    }
    files.put_link("/other/back", "/w/in", 1).unwrap();
    for (path, answer) in [
        ("/w/in", Ok(inside)),
        ("/w/d/../in", Ok(inside)),
        ("/other/back", Ok(inside)),
        ("/w/dir", Ok(top)),
        ("/w", Ok(top)),
        ("/w/out", Err(Errno::Perm)),
        ("/", Err(Errno::Perm)),
        ("/w/d/../..", Err(Errno::Perm)),
        ("/w/none", Err(Errno::Noent)),
    ] {
        assert_eq!(files.find_below(top, path), answer, "{path}");
    }
    assert_eq!(files.find_below(other, "/w/out"), Ok(outside));
}

#[test]
fn what_is_not_in_here_is_not_moved_and_moves_with_what_is_around_it() {
    let limits = Limits {
        depth: 5,
        ..Limits::NONE
    };
    let (mut files, top) = tree(&memory(1 << 20), limits);
    let mut clock = Clock::default();
    for path in ["a", "a/d", "b"] {
        files.path_create_directory(0, path, &mut clock).unwrap();
    }
    files.make_portal("/w/a/portal", 7).unwrap();
    files.make_dirs("/shown", false).unwrap();
    files.mount("/w/a/covered", files.find("/shown").unwrap()).unwrap();
    let before = files.clone();
    for name in ["a/portal", "a/covered"] {
        for (from, to) in [(name, "new"), (name, "a/new"), (name, "b/new"), ("a/d", name)] {
            let answer = files.path_rename((0, from), (0, to), &mut clock);
            assert_eq!(answer, Err(Errno::Busy), "{from} to {to}");
        }
    }
    assert_eq!(files.rename("/w/a/portal", "/w/new", 1), Err(Errno::Busy));
    assert!(files.is_same(&before), "nothing was changed");
    assert_eq!(files.path_rename((0, "a"), (0, "b/a"), &mut clock), Ok(()));
    let found: Vec<_> = files.walk(top).map(|found| found.path).collect();
    assert_eq!(found, ["b", "b/a", "b/a/d", "b/a/portal", "b/a/covered"]);
    let fd = files.path_open(0, "b/a", super::READ, &mut clock).unwrap();
    assert_eq!(files.portal(fd, true, "portal/x"), Some((7, "x".into())));
}

#[test]
fn a_node_gets_the_number_that_is_asked_for_if_no_other_has_it() {
    let (mut files, _) = tree(&memory(1 << 20), Limits::NONE);
    let make = |files: &mut Files, number, name: &str| {
        let path = format!("/w/{name}");
        let made = files.numbered(number, |files| files.put_dir(&path, 0)).unwrap();
        assert_eq!(files.stat(made).unwrap().ino, made.number());
        made.number()
    };
    let next = files.next_number();
    assert_eq!(make(&mut files, 100, "a"), 100);
    assert_eq!(make(&mut files, 50, "b"), 50);
    // Numbers in use, free, and out of range.
    assert_eq!(make(&mut files, 100, "c"), 101);
    assert_eq!(make(&mut files, 0, "d"), 102);
    assert_eq!(make(&mut files, u64::MAX, "e"), 103);
    assert_eq!(make(&mut files, next, "f"), next);
    files.number_from(50);
    assert_eq!(make(&mut files, 1, "g"), 104);
    files.number_from(u64::MAX);
    assert_eq!(make(&mut files, 0, "h"), 1 << 53);
    // A failed creation takes no number.
    assert!(files.numbered(200, |files| files.put_dir("/none", 0)).is_err());
    assert_eq!(make(&mut files, 0, "i"), (1 << 53) + 1);
}

#[test]
fn a_listing_goes_on_in_a_directory_that_was_made_anew() {
    let (mut files, dir) = tree(&memory(1 << 20), Limits::NONE);
    let pool = files.pool().clone();
    let names = |range: std::ops::Range<u32>| range.map(|n| format!("n{n:03}"));
    let put = |files: &mut Files, name: &str| {
        files.put_file(&format!("/w/{name}"), pool.content(b"").unwrap(), 0).unwrap();
    };
    assert_eq!(files.labels(dir), None);
    names(0..90).for_each(|name| put(&mut files, &name));
    assert_eq!(files.labels(dir), None);
    names(0..60).for_each(|name| files.remove(&format!("/w/{name}"), false, 0).unwrap());
    let (labels, next) = files.labels(dir).unwrap();
    assert_eq!((labels.len(), next), (30, labels[29] + 1));

    let (mut other, there) = tree(&memory(1 << 20), Limits::NONE);
    names(60..90).for_each(|name| put(&mut other, &name));
    other.put_labels(there, &labels, next).unwrap();
    assert_eq!(other.labels(there), Some((labels.clone(), next)));
    // As much as was not listed of the other.
    let used = other.fd_readdir(0, &mut [0; 4096], labels[10]).unwrap();
    assert_eq!(used, 20 * (24 + "n070".len()));
    for name in names(60..90) {
        assert!(other.find(&format!("/w/{name}")).is_ok(), "{name}");
    }
    put(&mut other, "new");
    assert_eq!(other.labels(there).unwrap().1, next + 1);

    // Names that were made in a row, of which the last are gone.
    let (mut last, dir) = tree(&memory(1 << 20), Limits::NONE);
    names(0..2).for_each(|name| put(&mut last, &name));
    last.remove("/w/n001", false, 0).unwrap();
    assert!(last.labels(dir).is_some());

    let refused: [(&[u64], u64); 6] =
        [(&[2, 3], 4), (&[1], 2), (&[2], 2), (&[2], u64::MAX), (&[u64::MAX], u64::MAX), (&[], 2)];
    for (labels, next) in refused {
        assert_eq!(last.put_labels(dir, labels, next), Err(Errno::Inval), "{labels:?}");
    }
}
