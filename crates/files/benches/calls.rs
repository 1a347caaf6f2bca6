//! Benchmarks of single calls: `cargo bench -p belljar-files --target-dir target/files`.

use std::hint::black_box;

use belljar_files::{FdFlags, Files, Limits, OFlags, OpenOptions, Pool, World, rights};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

struct Now;

impl World for Now {
    fn now(&mut self) -> u64 {
        1
    }

    fn random(&mut self, _: &mut [u8]) -> bool {
        false
    }
}

const MADE: OpenOptions = OpenOptions {
    follow: true,
    oflags: OFlags(OFlags::CREAT),
    rights: rights::FD_READ | rights::FD_WRITE,
    flags: FdFlags(0),
};

/// A tree as it is when a run starts.
fn template(pool: &Pool) -> Files {
    let mut files = Files::new(pool, Limits::NONE);
    for number in 0..3 {
        files.open_foreign(number, true).expect("a number is free");
    }
    for path in ["/workspace", "/tmp"] {
        let node = files.make_dirs(path, true).expect("nothing is in the way");
        files.give(node, path).expect("a number is free");
    }
    files
}

fn calls(criterion: &mut Criterion) {
    let pool = Pool::default();
    let template = template(&pool);
    criterion.bench_function("fresh", |bench| bench.iter(|| black_box(template.clone())));
    criterion.bench_function("make, write 10 KB, close", |bench| {
        let bytes = vec![1; 10_000];
        bench.iter(|| {
            let mut files = template.clone();
            let fd = files.path_open(3, "file", MADE, &mut Now).expect("it can be made");
            files.fd_write(fd, &bytes, &mut Now).expect("there is room");
            files.fd_close(fd).expect("it is open");
            files
        });
    });
    let mut files = template.clone();
    files
        .put_file("/workspace/a/b/file", pool.content(b"x").expect("there is room"), 0)
        .expect("it can be made");
    criterion.bench_function("look at a/b/file", |bench| {
        bench.iter(|| files.path_filestat_get(3, true, black_box("a/b/file")));
    });
    let fd = files.path_open(3, "log", MADE, &mut Now).expect("it can be made");
    let mut group = criterion.benchmark_group("write");
    for size in [100_usize, 4096, 1 << 20] {
        let bytes = vec![1; size];
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(size.to_string(), |bench| {
            bench.iter(|| {
                if files.fd_tell(fd).is_ok_and(|at| at > 64 << 20) {
                    files.fd_filestat_set_size(fd, 0, &mut Now).expect("it is open");
                    files.fd_seek(fd, 0, belljar_files::Whence::Set).expect("it is open");
                }
                files.fd_write(fd, &bytes, &mut Now)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);
