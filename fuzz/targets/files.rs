//! Any sequence of calls on the virtual file system gets an answer, usage matches the contents, and
//! snapshots do not change.
#![no_main]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use belljar_files::{
    FdFlags, Files, Kind, Limits, Node, OFlags, OpenOn, OpenOptions, Pool, PoolOptions, SetTimes,
    Usage, Whence, World,
};

/// Time stands still.
struct Still;

impl World for Still {
    fn now(&mut self) -> u64 {
        1
    }

    fn random(&mut self, into: &mut [u8]) -> bool {
        into.fill(1);
        true
    }
}

/// Takes the parameters of calls from the bytes.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn fd(&mut self) -> u32 {
        u32::from(self.byte() % 12)
    }

    /// Small, about as large as a block, or any size.
    fn size(&mut self) -> u64 {
        let (kind, low) = (self.byte(), u64::from(self.byte()));
        match kind % 4 {
            0 | 1 => low,
            2 => (64 << 10) * (low & 3) + (low >> 2),
            _ => u64::MAX >> (low & 63),
        }
    }

    fn path(&mut self) -> String {
        const PARTS: [&str; 10] = ["a", "b", "c", ".", "..", "", "/", "dev", "null", "\0"];
        let mut path = String::new();
        for _ in 0..self.byte() % 6 {
            let byte = self.byte();
            path += PARTS[usize::from(byte) % PARTS.len()];
            if byte & 0x80 != 0 {
                path.push('/');
            }
            if byte & 0x7f == 0x7f {
                path += &"n".repeat(self.size().min(300) as usize);
            }
        }
        path
    }
}

static POOL: LazyLock<Pool> = LazyLock::new(|| {
    Pool::new(PoolOptions {
        memory: 300 << 10,
        spool: Some(std::env::temp_dir()),
        disk: 1 << 20,
    })
});

const LIMITS: Limits = Limits {
    bytes: 1 << 42,
    files: 30,
    open: 8,
    depth: 8,
    path: 500,
};

fn call(files: &mut Files, input: &mut Input<'_>) {
    let world = &mut Still;
    let mut buffer = vec![0; 70_000];
    let length = |input: &mut Input<'_>| input.size().min(70_000) as usize;
    let fd = input.fd();
    let _ = match input.byte() % 24 {
        0..=3 => {
            let options = OpenOptions {
                follow: input.byte() & 1 == 0,
                oflags: OFlags(input.byte().into()),
                rights: input.byte().into(),
                flags: FdFlags((input.byte() & 5).into()),
            };
            files.path_open(fd, &input.path(), options, world).map(drop)
        }
        4 => files.fd_close(fd).map(drop),
        5 => files.fd_renumber(fd, input.fd()).map(drop),
        6 => files.fd_read(fd, &mut buffer[..length(input)], world).map(drop),
        7 => files.fd_pread(fd, &mut buffer[..length(input)], input.size(), world).map(drop),
        8 => files.fd_write(fd, &buffer[..length(input)], world).map(drop),
        9 => files.fd_pwrite(fd, &buffer[..length(input)], input.size(), world).map(drop),
        10 => {
            let whence = Whence::from_raw(input.byte() % 3).expect("one of three");
            files.fd_seek(fd, input.size().cast_signed(), whence).map(drop)
        }
        11 => files.fd_filestat_set_size(fd, input.size(), world),
        12 => files.fd_readdir(fd, &mut buffer[..length(input)], input.size()).map(drop),
        13 => files.path_create_directory(fd, &input.path(), world),
        14 => files.path_filestat_get(fd, input.byte() & 1 == 0, &input.path()).map(drop),
        15 => files.path_link((fd, false, &input.path()), (input.fd(), &input.path()), world),
        16 => files.path_readlink(fd, &input.path()).map(drop),
        17 => files.path_remove_directory(fd, &input.path(), world),
        18 | 19 => files.path_rename((fd, &input.path()), (input.fd(), &input.path()), world),
        20 => files.path_symlink(&input.path(), fd, &input.path(), world),
        21 => files.path_unlink_file(fd, &input.path(), world),
        22 => SetTimes::from_raw(1, 2, input.byte().into())
            .and_then(|times| files.fd_filestat_set_times(fd, times, world)),
        _ => files.remove(&format!("/w/{}", input.path()), true, 1),
    };
}

/// Usage, recounted.
fn count(files: &Files) -> Usage {
    let mut sizes: BTreeMap<Node, u64> = BTreeMap::new();
    let (mut names, mut open) = (0, 0);
    let top = files.find("/w").expect("the host made it");
    for found in files.walk(top) {
        let stat = files.stat(found.node).expect("it has a name");
        assert_eq!(stat.kind, found.kind);
        names += 1;
        sizes.insert(found.node, stat.size);
    }
    for (fd, file) in files.open_files() {
        open += usize::from(!file.given);
        if let OpenOn::Node(node) = file.on {
            let stat = files.fd_filestat_get(fd).expect("it is open");
            if stat.nlink == 0 && matches!(stat.kind, Kind::File | Kind::Directory) {
                names += u64::from(sizes.insert(node, stat.size).is_none());
            }
        }
    }
    Usage {
        bytes: sizes.values().sum(),
        files: names,
        open,
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let before = POOL.usage();
    let mut files = Files::new(&POOL, LIMITS);
    let top = files.make_dirs("/w", true).expect("nothing is in the way");
    files.make_device("/dev/null", belljar_files::Device::Null).expect("nothing is in the way");
    files.give(top, "/w").expect("a number is free");
    let mut kept = (files.clone(), files.usage(), files.version());
    while !input.0.is_empty() {
        match input.byte() {
            0xfe => kept = (files.clone(), files.usage(), files.version()),
            0xff => files = kept.0.clone(),
            _ => call(&mut files, &mut input),
        }
        let usage = files.usage();
        assert!(usage.bytes <= LIMITS.bytes && usage.files <= LIMITS.files);
        assert!(usage.open <= LIMITS.open);
    }
    for files in [&files, &kept.0] {
        assert_eq!(files.usage(), count(files));
    }
    assert_eq!((kept.0.usage(), kept.0.version()), (kept.1, kept.2));
    drop((files, kept));
    assert_eq!(POOL.usage(), before);
});
