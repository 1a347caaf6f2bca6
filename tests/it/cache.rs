//! The cache directory: damaged files, and directories that cannot be written.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use belljar::doctor::{self, State};
use belljar::progress::{Progress, Stage};
use belljar::{Error, Request, Runtime, SessionOptions};

use crate::caches::{copy, copy_of_the_shared_one, shared};
use crate::support::{apart, chain, run_on};

/// Records the setup steps of a runtime.
#[derive(Default)]
struct Notes(Mutex<Vec<Stage>>);

impl Progress for Notes {
    fn begin(&self, stage: Stage, _: &str) {
        self.0.lock().unwrap().push(stage);
    }

    fn end(&self, _: Stage) {}
}

impl Notes {
    fn take(&self) -> Vec<Stage> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Starts a runtime on a cache, runs code, and returns the setup steps.
#[track_caller]
fn works(cache: &Path) -> Vec<Stage> {
    let notes = Arc::new(Notes::default());
    let runtime = Runtime::builder()
        .environment()
        .cache(cache)
        .progress(notes.clone())
        .build()
        .unwrap_or_else(|e| panic!("{}", chain(&e)));
    let outcome = run_on(&runtime, Request::new("print('works')").image("core")).outcome;
    assert_eq!(outcome.stdout, "works\n", "{outcome:#?}");
    notes.take()
}

/// The files of a directory with this ending.
fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with(ending))
        .collect();
    found.sort();
    found
}

/// The file of a built-in image.
fn image_file(cache: &Path, image: &str) -> PathBuf {
    let all = files(&cache.join("images"), "");
    let file = all.iter().find(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(image) && path.extension() != Some("seal".as_ref())
    });
    file.unwrap_or_else(|| panic!("no {image} image among {all:?}")).clone()
}

fn seal_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".seal");
    name.into()
}

/// Changes one byte in the middle, keeping the file's size.
fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// Replaces a file with a copy that earlier runtimes have not mapped: memory that is still being
/// reset to its image must stay readable.
fn renew(path: &Path) {
    let copy = path.with_extension("copy");
    fs::copy(path, &copy).unwrap();
    fs::rename(copy, path).unwrap();
}

fn halve(path: &Path) {
    let size = fs::metadata(path).unwrap().len();
    fs::File::options().write(true).open(path).unwrap().set_len(size / 2).unwrap();
}

#[test]
fn a_copied_cache_is_as_good() {
    let cache = copy_of_the_shared_one();
    assert_eq!(works(cache.path()), []);
    assert!(
        doctor::examine(Some(cache.path().into()))
            .iter()
            .all(|f| f.state == State::Good || f.state == State::Missing)
    );
}

/// A way to damage an image file.
type Spoil = fn(&Path);

#[test]
fn an_image_that_is_not_the_one_written_is_made_again() {
    let ways: [(&str, Spoil); 9] = [
        ("removed", |path| fs::remove_file(path).unwrap()),
        ("truncated", halve),
        ("emptied", |path| fs::write(path, "").unwrap()),
        ("changed", flip),
        ("changed in its head", |path| {
            let mut bytes = fs::read(path).unwrap();
            bytes[9] ^= 0xff;
            fs::write(path, bytes).unwrap();
        }),
        ("foreign", |path| fs::write(path, vec![0x7f; 1 << 20]).unwrap()),
        ("without a seal", |path| fs::remove_file(seal_of(path)).unwrap()),
        ("with half a seal", |path| halve(&seal_of(path))),
        ("with another's seal", |path| {
            let artifact = files(path.parent().unwrap(), ".seal");
            let other = artifact.iter().find(|p| **p != seal_of(path)).unwrap();
            fs::copy(other, seal_of(path)).unwrap();
        }),
    ];
    let cache = copy_of_the_shared_one();
    for (how, spoil) in ways {
        let image = image_file(cache.path(), "core");
        renew(&image);
        spoil(&image);
        let findings = doctor::examine(Some(cache.path().into()));
        assert!(findings.iter().any(|f| f.state != State::Good), "{how}: {findings:#?}");
        let made = works(cache.path());
        assert!(made.contains(&Stage::Bake), "{how}: {made:?}");
        assert!(!made.contains(&Stage::Compile), "{how}: {made:?}");
    }
    assert_eq!(works(cache.path()), []);
}

/// Another image in the place of `core`, with its seal, is not accepted.
#[test]
fn an_image_under_another_name_is_refused() {
    let cache = copy_of_the_shared_one();
    let [core, data] = ["core", "data"].map(|image| image_file(cache.path(), image));
    fs::copy(&data, &core).unwrap();
    fs::copy(seal_of(&data), seal_of(&core)).unwrap();
    let made = works(cache.path());
    assert!(made.contains(&Stage::Bake), "{made:?}");
}

/// The directory of the wheel's contents.
fn artifact(cache: &Path) -> PathBuf {
    let mut entries = fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path());
    let is_it =
        |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("artifact-");
    entries.find(is_it).unwrap()
}

/// Makes a cache as written by versions with matplotlib's data in a directory.
pub fn as_earlier_versions_left_it(cache: &Path) {
    for file in ["mpl-data.files", "mpl-data.files.seal"] {
        fs::remove_file(artifact(cache).join(file)).unwrap();
    }
    fs::create_dir(artifact(cache).join("mpl-data")).unwrap();
}

#[test]
fn what_an_earlier_version_left_is_brought_up_to_date() {
    let cache = copy_of_the_shared_one();
    let data = artifact(cache.path()).join("mpl-data.files");
    let before = fs::read(&data).unwrap();
    as_earlier_versions_left_it(cache.path());
    // This downloads, unpacks and compiles nothing.
    assert_eq!(works(cache.path()), []);
    assert!(fs::read(&data).unwrap() == before);
}

#[test]
fn an_artifact_that_was_changed_is_unpacked_again() {
    let cache = copy_of_the_shared_one();
    let artifact = artifact(cache.path());
    let module = files(&artifact, ".wasm");
    flip(&module[0]);
    let made = works(cache.path());
    assert!(made.contains(&Stage::Unpack), "{made:?}");
    assert!(!made.contains(&Stage::Compile), "{made:?}");
    assert_eq!(works(cache.path()), []);
}

/// Two processes find damaged code: one of them compiles, the other waits.
#[test]
fn code_that_was_changed_is_compiled_again_and_only_once() {
    const PLACE: &str = "BELLJAR_TEST_CACHE";
    if let Some(place) = std::env::var_os(PLACE) {
        println!("made {:?}", works(Path::new(&place)));
        return;
    }
    let cache = copy_of_the_shared_one();
    // Code of smaller tiers would be used instead, and another version of belljar may have left
    // some.
    let is_of_a_tier = |path: &Path| {
        let name = path.file_stem().unwrap().to_string_lossy();
        name.ends_with("-core") || name.ends_with("-data")
    };
    let (smaller, code): (Vec<_>, Vec<_>) = files(&cache.path().join("code"), ".cwasm")
        .into_iter()
        .partition(|path| is_of_a_tier(path));
    assert!(!code.is_empty());
    for path in &smaller {
        fs::remove_file(path).unwrap();
    }
    for path in &code {
        flip(path);
    }
    let findings = doctor::examine(Some(cache.path().into()));
    let bad: Vec<_> = findings.iter().filter(|f| f.state == State::Bad).collect();
    assert_eq!(bad.len(), 1, "{findings:#?}");
    assert!(bad[0].mend.is_some(), "{bad:?}");

    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "cache::code_that_was_changed_is_compiled_again_and_only_once"])
            .arg("--nocapture")
            .env(PLACE, cache.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let printed: Vec<String> = [start(), start()]
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            let stdout = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
            stdout
        })
        .collect();
    let compiled = printed.iter().filter(|text| text.contains("Compile")).count();
    assert_eq!(compiled, 1, "{printed:#?}");
    assert!(printed.iter().any(|text| text.contains("Waiting")), "{printed:#?}");
    assert_eq!(works(cache.path()), []);
}

#[test]
fn only_the_user_can_read_it() {
    let cache = copy_of_the_shared_one();
    // Recreated, so that the engine sets the modes.
    fs::remove_dir_all(cache.path().join("images")).unwrap();
    works(cache.path());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&cache.path().join("images")), 0o700);
    for path in files(&cache.path().join("images"), "") {
        assert_eq!(mode(&path), 0o600, "{path:?}");
    }
}

#[test]
fn a_place_that_cannot_be_written_is_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a file");
    fs::write(&file, "").unwrap();
    for place in [file.join("cache"), PathBuf::from("/proc/belljar/cache"), file] {
        let Err(error) = Runtime::builder().environment().cache(&place).build() else {
            panic!("a cache was made at {}", place.display());
        };
        assert!(matches!(error, Error::Cache(_)), "{error:?}");
        let text = chain(&error);
        assert!(text.contains(place.to_str().unwrap()), "{text}");
    }
}

/// A small file system for the test.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount(options: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        assert!(mounted(dir.path(), options), "no file system can be mounted here");
        Self(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn make_read_only(&self) {
        let status =
            Command::new("mount").args(["-o", "remount,ro"]).arg(self.path()).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

fn mounted(path: &Path, options: &str) -> bool {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(path).stderr(Stdio::null());
    mount.status().is_ok_and(|status| status.success())
}

/// Runs the body of the test `name` where file systems can be mounted: as root, or in a user
/// namespace. Fails if neither is possible.
#[track_caller]
fn with_disks(name: &str, body: impl FnOnce()) {
    let probe = tempfile::tempdir().unwrap();
    if mounted(probe.path(), "size=4k") {
        drop(Disk(probe));
        return body();
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount"]).arg(std::env::current_exe().unwrap());
    apart(name, &mut command, body);
}

#[test]
fn a_full_disk_is_a_clear_error() {
    with_disks("cache::a_full_disk_is_a_clear_error", full_disk);
}

fn full_disk() {
    let source = copy_of_the_shared_one();
    // Everything except the images is set up, and there is room for a third of an image.
    fs::remove_dir_all(source.path().join("images")).unwrap();
    let size = directory_size(source.path());
    let disk = Disk::mount(&format!("size={}", size + (6 << 20)));
    copy(source.path(), disk.path());
    let runtime = Runtime::builder().environment().cache(disk.path()).build().unwrap();
    let error = runtime.blocking().run(Request::new("1").image("core")).unwrap_err();
    let text = chain(&error);
    assert!(text.contains("No space left on device"), "{text}");
    assert!(text.contains(disk.path().to_str().unwrap()), "{text}");
    let hint = error.hint().unwrap_or_default();
    assert!(hint.contains("BELLJAR_CACHE"), "{hint:?}");
    // No partial file is left.
    for path in files(&disk.path().join("images"), "") {
        assert!(
            path.ends_with(".lock") || fs::metadata(&path).unwrap().len() == 0,
            "{}",
            path.display()
        );
    }
}

#[test]
fn a_disk_that_fills_up_does_not_end_the_process() {
    with_disks("cache::a_disk_that_fills_up_does_not_end_the_process", disk_that_fills_up);
}

/// On tmpfs, reading a hole of a mapped file allocates memory: without room, it raises a signal.
fn disk_that_fills_up() {
    let shared = shared();
    for is_writable in [true, false] {
        let disk = Disk::mount(&format!("size={}", directory_size(&shared) + (32 << 20)));
        let mut copying = Command::new("cp");
        copying.args(["-r", "--sparse=always"]).arg(shared.join(".")).arg(disk.path());
        assert!(copying.status().unwrap().success());
        let image = disk.path().join("images/core.image");
        let is_sparse = || {
            let metadata = fs::metadata(&image).unwrap();
            std::os::unix::fs::MetadataExt::blocks(&metadata) * 512 < metadata.len()
        };
        assert!(is_sparse());
        if is_writable {
            // Files created there have no holes.
            fs::remove_file(&image).unwrap();
            works(disk.path());
            assert!(!is_sparse());
        }
        fill(disk.path());
        if !is_writable {
            disk.make_read_only();
        }
        let code = "x = bytearray(30_000_000)\nimport decimal, csv, statistics\nprint(len(x))";
        let runtime = Runtime::builder().environment().cache(disk.path()).build().unwrap();
        let outcome = run_on(&runtime, Request::new(code).image("core")).outcome;
        assert_eq!(outcome.stdout, "30000000\n", "{outcome:#?}");
        if is_writable {
            drop(runtime);
            // With holes, and no room to fill them: an error, and no signal.
            let dug = Command::new("fallocate").args(["--dig-holes"]).arg(&image).status();
            assert!(dug.unwrap().success() && is_sparse());
            fill(disk.path());
            let runtime = Runtime::builder().environment().cache(disk.path()).build().unwrap();
            let error = runtime.blocking().run(Request::new("1").image("core")).unwrap_err();
            let text = chain(&error);
            assert!(text.contains("fill the holes of") && text.contains("No space left"), "{text}");
            assert!(error.hint().unwrap_or_default().contains("BELLJAR_CACHE"));
        }
    }
}

/// Fills the remaining space.
fn fill(dir: &Path) {
    let path = dir.join("fill");
    let mut file = fs::File::options().create(true).append(true).open(path).unwrap();
    let piece = [1; 4096];
    while std::io::Write::write_all(&mut file, &piece).is_ok() {}
}

fn directory_size(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            if entry.file_type().unwrap().is_dir() {
                directory_size(&entry.path())
            } else {
                entry.metadata().unwrap().len().next_multiple_of(4096)
            }
        })
        .sum()
}

#[test]
fn a_read_only_cache_works_when_all_is_there() {
    with_disks("cache::a_read_only_cache_works_when_all_is_there", read_only_cache);
}

fn read_only_cache() {
    let disk = Disk::mount(&format!("size={}", directory_size(&shared()) + (64 << 20)));
    copy(&shared(), disk.path());
    disk.make_read_only();
    assert_eq!(works(disk.path()), []);
}

#[test]
fn a_read_only_disk_without_a_cache_is_a_clear_error() {
    with_disks("cache::a_read_only_disk_without_a_cache_is_a_clear_error", read_only_disk);
}

fn read_only_disk() {
    let disk = Disk::mount("size=1m");
    disk.make_read_only();
    let Err(error) = Runtime::builder().environment().cache(disk.path().join("cache")).build()
    else {
        panic!("a cache was made on a read-only disk");
    };
    assert!(chain(&error).contains("Read-only file system"), "{}", chain(&error));
    assert!(error.hint().unwrap_or_default().contains("BELLJAR_CACHE"), "{:?}", error.hint());
}

#[test]
fn a_full_disk_for_workspaces() {
    with_disks("cache::a_full_disk_for_workspaces", full_disk_for_workspaces);
}

fn full_disk_for_workspaces() {
    let disk = Disk::mount("size=1m");
    let runtime = Runtime::builder().environment().temp_dir(disk.path()).build().unwrap();
    // The code gets the error of a full disk, once the memory limit is reached, too.
    let code = "import errno\nwritten = 0\ntry:\n    with open('big.bin', 'wb') as file:\n        \
                for _ in range(300):\n            written += file.write(b'x' * (1 << 20))\n\
                except OSError as error:\n    print(errno.errorcode[error.errno], written >= 255 << 20)";
    let mut request = Request::new(code);
    request.limits.workspace = Some(1 << 30);
    let outcome = run_on(&runtime, request).outcome;
    assert_eq!(outcome.stdout, "ENOSPC True\n", "{outcome:#?}");
    // The caller gets it, too, if there is no room for the input files.
    let request = Request::new("1").file("big.bin", vec![1; 300 << 20]);
    let error = runtime.blocking().run(request).unwrap_err();
    assert!(chain(&error).contains("no space left on device"), "{}", chain(&error));
    assert!(error.hint().is_some());
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0, "its directory was left");
}

#[test]
fn no_directory_is_needed_until_files_are_kept() {
    let runtime = Runtime::builder().environment().temp_dir("/nowhere/at/all").build().unwrap();
    let code = "_ = open('a', 'w').write('b')\nprint(open('a').read())";
    let run = run_on(&runtime, Request::new(code));
    assert_eq!((&*run.outcome.stdout, run.read("a").unwrap()), ("b\n", b"b".to_vec()));
    let session = runtime.blocking().session(SessionOptions::new().image("core")).unwrap();
    assert_eq!(session.run(Request::new(code)).unwrap().stdout, "b\n");
    session.close();
    let error = run.keep().unwrap_err();
    assert!(matches!(error, Error::Workspace(_)), "{error:?}");
    assert!(chain(&error).contains("/nowhere/at/all"), "{}", chain(&error));
}
