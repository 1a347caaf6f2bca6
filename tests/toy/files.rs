//! Files of a run: both of their bounds, and what counts towards them.

use belljar::request::Mount;
use belljar::{Outcome, Request, RequestLimits};

use super::{outcome, run, succeeded};

// Error numbers of WASI.
const EXIST: &str = "errno 20\n";
const NOENT: &str = "errno 44\n";
const NOSPC: &str = "errno 51\n";
const ROFS_OR_PERM: [&str; 3] = ["errno 2\n", "errno 63\n", "errno 69\n"];

/// Runs code whose files may have so many bytes, and be so many.
async fn within(bytes: u64, files: u64, code: &str) -> Outcome {
    let limits = RequestLimits::default().workspace(bytes).files(files);
    let outcome = run(Request::new(code).limits(limits)).await;
    succeeded(&outcome);
    outcome
}

#[tokio::test]
async fn bytes_are_bounded_wherever_they_are() {
    for code in [
        "try fill f 100001",
        "fill f 60000\ntry fill g 60000",
        "fill f 60000\ntry fill /tmp/g 60000",
        "fill f 60000\nopen a f\nremove f\ntry fill g 60000",
        "repeat 10 append f 0123456789\nfill g 60000\ntry fill h 39901",
    ] {
        let outcome = within(100_000, 10, code).await;
        assert_eq!(outcome.stdout, NOSPC, "{code}");
        assert!(outcome.usage.workspace_bytes <= 100_000, "{code}: {:?}", outcome.usage);
    }
}

#[tokio::test]
async fn room_that_is_given_back_is_there_again() {
    for code in [
        "fill f 100000",
        "repeat 20 fill f 60000",
        "fill f 60000\nremove f\nfill g 100000",
        "fill f 60000\nopen a f\nremove f\nclose a\nfill g 60000",
        "fill f 60000\nfill g 40000\nrename g f\nfill h 60000",
    ] {
        assert_eq!(within(100_000, 10, code).await.stdout, "", "{code}");
    }
}

#[tokio::test]
async fn files_and_directories_are_bounded_in_number() {
    let many = |n: usize| (0..n).map(|n| format!("write {n} x\n")).collect::<Vec<_>>().concat();
    assert_eq!(within(100_000, 10, &many(10)).await.files.len(), 10);
    assert_eq!(within(100_000, 10, &format!("{}try write z x", many(10))).await.stdout, NOSPC);
    assert_eq!(within(100_000, 10, &format!("{}try mkdir z", many(10))).await.stdout, NOSPC);
    assert_eq!(within(100_000, 10, &format!("{}try write /tmp/z x", many(10))).await.stdout, NOSPC);
    assert_eq!(within(100_000, 10, &format!("{}remove 3\nmkdir z", many(10))).await.stdout, "");
}

/// What a run is given comes on top of its bounds.
#[tokio::test]
async fn given_files_do_not_count() {
    let limits = RequestLimits::default().workspace(1000).files(1);
    let request = Request::new("fill f 1000\ntry fill f 1001\ntry write g x");
    let request = request.limits(limits).file("a", vec![0; 5000]).file("b", vec![0; 5000]);
    let outcome = run(request).await;
    succeeded(&outcome);
    assert_eq!(outcome.stdout, format!("{NOSPC}{NOSPC}"));
}

#[tokio::test]
async fn the_host_tells_how_much_room_there_is() {
    assert_eq!(within(5000, 10, "fill f 1200\nsend q").await.stdout, "[5000,1200]\n");
}

#[tokio::test]
async fn paths_lead_nowhere_else() {
    for path in ["../../../../etc/passwd", "/etc/passwd", "/proc/self/maps", "absent"] {
        assert_eq!(outcome(&format!("try read {path}")).await.stdout, NOENT, "{path}");
    }
    assert_eq!(outcome("mkdir d\ntry mkdir d").await.stdout, EXIST);
    let read = outcome("write d x\nread /workspace/d\nread ../workspace/d").await;
    assert_eq!(read.stdout, "xx");
}

#[tokio::test]
async fn mounted_directories_are_read_and_never_written() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("data"), "of the host").unwrap();
    for change in ["write /mnt/data x", "write /mnt/new x", "remove /mnt/data", "mkdir /mnt/d"] {
        let mut request = Request::new(format!("read /mnt/data\nprint\ntry {change}"));
        request.mounts.push(Mount::new(dir.path(), "/mnt"));
        let outcome = run(request).await;
        let error = outcome.stdout.strip_prefix("of the host\n").unwrap_or_default();
        assert!(ROFS_OR_PERM.contains(&error), "{change}: {outcome:#?}");
    }
    assert_eq!(std::fs::read(dir.path().join("data")).unwrap(), b"of the host");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn descriptors_are_bounded() {
    let outcome = outcome("repeat 252 open a f\ntry repeat 10 open a f").await;
    assert_eq!(outcome.stdout, "errno 33\n");
}
