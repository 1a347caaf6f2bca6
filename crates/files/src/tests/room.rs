//! Memory, the spool, and a full disk.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use super::{Clock, MADE, memory, read, tree, write};
use crate::spool::Storage;
use crate::{BLOCK, Content, Errno, Limits, Pool, PoolOptions, PoolUsage};

/// A disk with room for some blocks, which can fail.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    room: usize,
    is_broken: bool,
    writes: usize,
    /// Number of writes by length.
    lengths: BTreeMap<usize, usize>,
}

impl Storage for Disk {
    fn read_exact_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        let state = self.0.lock().unwrap();
        if state.is_broken {
            return Err(io::ErrorKind::Other.into());
        }
        let from = state.bytes.get(at as usize..at as usize + into.len());
        into.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        let end = at as usize + bytes.len();
        if state.is_broken {
            return Err(io::ErrorKind::Other.into());
        }
        if end > state.room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if state.bytes.len() < end {
            state.bytes.resize(end, 0);
        }
        state.bytes[at as usize..end].copy_from_slice(bytes);
        state.writes += 1;
        *state.lengths.entry(bytes.len()).or_default() += 1;
        Ok(())
    }

    fn discard(&self, at: u64, len: u64) {
        let mut state = self.0.lock().unwrap();
        let end = (at + len).min(state.bytes.len() as u64) as usize;
        state.bytes[at as usize..end].fill(0xdd);
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().bytes.truncate(len as usize);
        Ok(())
    }
}

/// A pool with room for a number of blocks in memory and on a disk.
fn pool(in_memory: usize, on_disk: usize) -> (Pool, Disk) {
    let disk = Disk::default();
    disk.0.lock().unwrap().room = on_disk * BLOCK;
    let options = PoolOptions {
        memory: (in_memory * BLOCK) as u64,
        spool: None,
        disk: u64::MAX,
    };
    let opened = disk.clone();
    (Pool::with_storage(options, Box::new(move |_| Ok(Box::new(opened.clone())))), disk)
}

#[test]
fn blocks_beyond_the_bound_go_to_the_spool_and_their_places_are_used_again() {
    let (pool, disk) = pool(2, 100);
    let (mut files, _) = tree(&pool, Limits::NONE);
    let content: Vec<u8> = (0..5 * BLOCK as u64).map(|at| (at / 1000) as u8).collect();
    write(&mut files, "a", &content);
    let used = PoolUsage {
        memory: 2 * BLOCK as u64,
        disk: 3 * BLOCK as u64,
    };
    assert_eq!(pool.usage(), used);
    assert_eq!(read(&mut files, "a"), content);
    for _ in 0..20 {
        write(&mut files, "b", &content);
        assert_eq!(read(&mut files, "b"), content);
        files.path_unlink_file(0, "b", &mut Clock::default()).unwrap();
        assert_eq!(pool.usage(), used);
    }
    assert!(disk.0.lock().unwrap().bytes.len() <= 8 * BLOCK);
    let node = files.find("/w/a").unwrap();
    let own = files.content(node).unwrap();
    assert_eq!(own.hash().unwrap(), blake3::hash(&content));
    drop(files);
    assert_eq!(pool.usage(), PoolUsage::default());
    assert_eq!(disk.0.lock().unwrap().bytes.len(), 0, "the file was shortened");
}

#[test]
fn a_full_disk_is_an_error_of_one_write() {
    let (pool, disk) = pool(1, 3);
    let (mut files, _) = tree(&pool, Limits::NONE);
    let mut clock = Clock::default();
    write(&mut files, "small", &vec![1; BLOCK]);
    write(&mut files, "kept", &vec![2; 2 * BLOCK]);
    let before = files.clone();
    let fd = files.path_open(0, "big", MADE, &mut clock).unwrap();
    // Writes as much as fits, as POSIX requires, and then fails.
    assert_eq!(files.fd_write(fd, &vec![3; 9 * BLOCK], &mut clock), Ok(BLOCK));
    assert_eq!(files.fd_write(fd, &[3; 9], &mut clock), Err(Errno::Nospc));
    assert_eq!(files.usage().bytes, 4 * BLOCK as u64);
    assert_eq!(read(&mut files, "kept"), vec![2; 2 * BLOCK]);
    assert_eq!(read(&mut files, "small"), vec![1; BLOCK]);
    // Writing to shared blocks needs a copy, which does not fit either.
    let kept = files.path_open(0, "kept", MADE, &mut clock).unwrap();
    assert_eq!(files.fd_pwrite(kept, b"x", 5, &mut clock), Err(Errno::Nospc));
    drop(before);
    assert_eq!(files.fd_pwrite(kept, b"x", 5, &mut clock), Ok(1));
    // A failing disk is another error, and affects nothing else.
    disk.0.lock().unwrap().is_broken = true;
    assert_eq!(files.fd_pread(kept, &mut [0; 9], 0, &mut clock), Err(Errno::Io));
    assert_eq!(read(&mut files, "small"), vec![1; BLOCK]);
    files.path_unlink_file(0, "kept", &mut clock).unwrap();
    files.fd_close(kept).unwrap();
    disk.0.lock().unwrap().is_broken = false;
    assert_eq!(files.fd_write(fd, &[3; 9], &mut clock), Ok(9));
    assert_eq!(read(&mut files, "big"), vec![3; BLOCK + 9]);
}

#[test]
fn without_a_directory_there_is_memory_alone() {
    for spool in [None, Some("/nowhere/at/all".into())] {
        let options = PoolOptions {
            memory: BLOCK as u64,
            spool,
            disk: u64::MAX,
        };
        let (mut files, _) = tree(&Pool::new(options), Limits::NONE);
        let fd = files.path_open(0, "a", MADE, &mut Clock::default()).unwrap();
        assert_eq!(files.fd_write(fd, &vec![1; 2 * BLOCK], &mut Clock::default()), Ok(BLOCK));
        let answer = files.fd_write(fd, &vec![1; 2 * BLOCK], &mut Clock::default());
        assert_eq!(answer, Err(Errno::Nospc));
    }
}

#[test]
fn a_real_spool_is_a_file_without_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let options = PoolOptions {
        memory: 0,
        spool: Some(dir.path().to_owned()),
        disk: 4 * BLOCK as u64,
    };
    let (mut files, _) = tree(&Pool::new(options), Limits::NONE);
    let content: Vec<u8> = (0..200_000u32).map(|at| (at / 7) as u8).collect();
    write(&mut files, "a", &content);
    assert_eq!(read(&mut files, "a"), content);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let fd = files.path_open(0, "b", MADE, &mut Clock::default()).unwrap();
    assert_eq!(files.fd_write(fd, b"x", &mut Clock::default()), Err(Errno::Nospc));
}

#[test]
fn what_was_in_a_slot_before_is_never_read() {
    let (pool, _) = pool(0, 10);
    let (mut files, _) = tree(&pool, Limits::NONE);
    let mut clock = Clock::default();
    write(&mut files, "secret", &vec![9; BLOCK]);
    files.path_unlink_file(0, "secret", &mut clock).unwrap();
    let fd = files.path_open(0, "other", MADE, &mut clock).unwrap();
    files.fd_pwrite(fd, b"x", 1000, &mut clock).unwrap();
    files.fd_filestat_set_size(fd, 10, &mut clock).unwrap();
    files.fd_filestat_set_size(fd, 3000, &mut clock).unwrap();
    files.fd_pwrite(fd, b"y", 5000, &mut clock).unwrap();
    let mut expected = vec![0; 5001];
    expected[5000] = b'y';
    assert_eq!(read(&mut files, "other"), expected);
}

#[test]
fn small_writes_cost_what_they_write() {
    for (in_memory, on_disk) in [(100, 0), (0, 100)] {
        let (pool, disk) = pool(in_memory, on_disk);
        let (mut files, _) = tree(&pool, Limits::NONE);
        let mut clock = Clock::default();
        let fd = files.path_open(0, "lines", MADE, &mut clock).unwrap();
        for _ in 0..40_000 {
            assert_eq!(files.fd_write(fd, &[b'x'; 100], &mut clock), Ok(100));
        }
        assert_eq!(files.usage().bytes, 4_000_000);
        let lengths = disk.0.lock().unwrap().lengths.clone();
        assert!(lengths.keys().all(|length| *length <= 100), "{lengths:?}");
    }
}

#[test]
fn contents_are_taken_apart_and_put_together() {
    let pool = memory(1 << 30);
    let mut content = pool.content(&vec![5; 100_000]).unwrap();
    content.write_at(&pool, 1 << 30, b"end").unwrap();
    let blocks: Vec<_> = content.blocks().map(|(at, block)| (at, block.clone())).collect();
    assert_eq!(blocks.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1 << 16, 1 << 30]);
    let used = pool.usage();
    let other = Content::from_blocks(content.len(), blocks.clone()).unwrap();
    assert_eq!(pool.usage(), used, "they share their blocks");
    assert_eq!(other.len(), content.len());
    for (len, at) in [(10, 0), (1 << 40, 5), (100, 1 << 20)] {
        let block = blocks[0].1.clone();
        assert_eq!(Content::from_blocks(len, [(at, block)]).err(), Some(Errno::Inval));
    }
    let small = pool.content(b"abc").unwrap();
    assert_eq!(small.hash().unwrap(), blake3::hash(b"abc"));
    let mut changed = small.clone();
    changed.write_at(&pool, 0, b"x").unwrap();
    assert_eq!(changed.hash().unwrap(), blake3::hash(b"xbc"));
    assert_eq!(small.hash().unwrap(), blake3::hash(b"abc"));
    let weak = small.downgrade();
    assert!(weak.upgrade().is_some_and(|found| found.is_same(&small)));
    drop(small);
    assert!(weak.upgrade().is_none());
}

#[test]
fn a_reader_is_taken_in_up_to_a_bound() {
    let pool = memory(1 << 20);
    let bytes = vec![3; 100_000];
    let content = pool.receive(&mut &bytes[..], 100_000).unwrap().unwrap().unwrap();
    assert_eq!(content.hash().unwrap(), blake3::hash(&bytes));
    assert!(pool.receive(&mut &bytes[..], 99_999).unwrap().unwrap().is_none());
    let large = vec![0; 2 << 20];
    assert_eq!(pool.receive(&mut &large[..], u64::MAX).unwrap().err(), Some(Errno::Nospc));
}

#[test]
fn a_file_with_a_hole_takes_little() {
    let pool = memory(1 << 30);
    let (mut files, _) = tree(&pool, Limits::NONE);
    let mut clock = Clock::default();
    for number in 0..100 {
        let fd = files.path_open(0, &number.to_string(), MADE, &mut clock).unwrap();
        files.fd_write(fd, &vec![1; BLOCK], &mut clock).unwrap();
        files.fd_filestat_set_size(fd, 1, &mut clock).unwrap();
        files.fd_pwrite(fd, b"x", 5 * BLOCK as u64, &mut clock).unwrap();
        files.fd_close(fd).unwrap();
    }
    let held = pool.usage().memory;
    assert!(held <= 100 * 2 * 128, "{held}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_disk_is_given_back_in_the_middle_of_the_spool() {
    use std::os::unix::fs::MetadataExt;
    let file = tempfile::tempfile().unwrap();
    let seen = file.try_clone().unwrap();
    let own = Mutex::new(Some(file));
    let options = PoolOptions {
        memory: 0,
        spool: None,
        disk: u64::MAX,
    };
    let open = move |_: &PoolOptions| -> io::Result<Box<dyn Storage>> {
        Ok(Box::new(own.lock().unwrap().take().unwrap()))
    };
    let (mut files, _) = tree(&Pool::with_storage(options, Box::new(open)), Limits::NONE);
    write(&mut files, "large", &vec![1; 100 * BLOCK]);
    write(&mut files, "late", b"x");
    files.path_unlink_file(0, "large", &mut Clock::default()).unwrap();
    let known = seen.metadata().unwrap();
    assert!(known.blocks() * 512 <= 4 * BLOCK as u64, "{}", known.blocks());
    assert_eq!(read(&mut files, "late"), b"x");
}

/// Runs in a process of its own, because the limit applies to all threads.
#[cfg(unix)]
#[test]
fn a_bound_on_the_size_of_files_is_no_room_and_no_signal() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    const OWN: &str = "BELLJAR_FILES_IN_A_PROCESS_OF_ITS_OWN";
    const NAME: &str = "tests::room::a_bound_on_the_size_of_files_is_no_room_and_no_signal";
    if std::env::var_os(OWN).is_none() {
        let mut own = std::process::Command::new(std::env::current_exe().unwrap());
        let answer = own.args(["--exact", NAME]).env(OWN, "1").output().unwrap();
        let text = String::from_utf8_lossy(&answer.stdout);
        assert!(answer.status.success() && text.contains("1 passed"), "{answer:?}");
        return;
    }
    let bound = Rlimit {
        current: Some(3 * BLOCK as u64 + 100),
        ..getrlimit(Resource::Fsize)
    };
    setrlimit(Resource::Fsize, bound).unwrap();
    let pool = Pool::new(PoolOptions {
        memory: 0,
        ..PoolOptions::default()
    });
    let (mut files, _) = tree(&pool, Limits::NONE);
    let mut clock = Clock::default();
    let fd = files.path_open(0, "f", MADE, &mut clock).unwrap();
    assert_eq!(files.fd_write(fd, &vec![1; 9 * BLOCK], &mut clock), Ok(3 * BLOCK));
    assert_eq!(files.fd_write(fd, &[2; 101], &mut clock), Err(Errno::Nospc));
    assert_eq!(files.fd_write(fd, &[2; 100], &mut clock), Ok(100));
    assert_eq!(files.fd_write(fd, &[2], &mut clock), Err(Errno::Nospc));
    assert_eq!(read(&mut files, "f").len(), 3 * BLOCK + 100);
    files.path_unlink_file(0, "f", &mut clock).unwrap();
    files.fd_close(fd).unwrap();
    assert_eq!(pool.usage(), PoolUsage::default());
}
