//! `belljar bundle`, and runs from a bundle in an almost empty environment.

use std::sync::LazyLock;

use super::*;

/// A bundle with `core`, and the command's output.
static MADE: LazyLock<Value> = LazyLock::new(|| {
    let to = lasting::directory().join("bundle");
    let to = to.to_str().unwrap();
    let arguments = ["bundle", "--image", "core", "--processor", "native", "-o", to, "--json"];
    ran(&arguments).exits(0).json()
});

pub fn path() -> &'static str {
    MADE["path"].as_str().unwrap()
}

/// The command with nothing in its environment but a bundle.
fn bare() -> Command {
    let mut command = belljar();
    command.env_clear().env("BELLJAR_BUNDLE", path());
    command
}

fn done(command: &mut Command) -> Ran {
    command.output().unwrap().into()
}

#[test]
fn a_bundle_needs_no_home_and_writes_nothing_beside_workspaces() {
    let temporary = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let mut command = bare();
    command.env("TMPDIR", temporary.path()).current_dir(elsewhere.path());
    command.args(["run", "-c", "open('a', 'w').write('b'); print(open('a').read())"]);
    let ran = done(&mut command).exits(0);
    assert_eq!(ran.stdout, "b\n", "{}", ran.page());
    for dir in [&temporary, &elsewhere] {
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

#[cfg(unix)]
#[test]
fn every_user_may_read_a_bundle() {
    use std::os::unix::fs::PermissionsExt;
    let mut waiting = vec![Path::new(path()).to_owned()];
    while let Some(path) = waiting.pop() {
        let meta = fs::metadata(&path).unwrap();
        let wanted = if meta.is_dir() { 0o755 } else { 0o644 };
        assert_eq!(meta.permissions().mode() & 0o777, wanted, "{}", path.display());
        if meta.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
}

#[test]
fn the_hash_is_that_of_the_manifest_and_can_be_demanded() {
    let hash = MADE["hash"].as_str().unwrap();
    let mut sum = Command::new("sha256sum");
    sum.arg(Path::new(path()).join("belljar-bundle.json"));
    assert!(Ran::from(sum.output().unwrap()).stdout.starts_with(hash));
    let run = ["run", "-c", "print(1)"];
    assert_eq!(done(bare().env("BELLJAR_BUNDLE_HASH", hash).args(run)).exits(0).stdout, "1\n");
    let other = done(bare().args(["--bundle-hash", &"0".repeat(64)]).args(run)).exits(3);
    assert!(other.stderr.contains("is not the required bundle"), "{}", other.stderr);
}

#[test]
fn doctor_and_the_lists_are_about_the_bundle() {
    let report = done(bare().args(["doctor", "--json"])).exits(0).json();
    assert_eq!(report["well"], json!(true), "{report:#}");
    let findings = report["findings"].to_string();
    assert!(findings.contains(path()) && findings.contains("image core"), "{findings}");
    let images = done(bare().args(["image", "list", "--json"])).exits(0).json();
    assert_eq!(images.as_array().unwrap().len(), 1, "{images:#}");
    let licenses = done(bare().args(["licenses", "numpy"])).exits(0);
    assert!(licenses.stdout.contains("NumPy"), "{}", licenses.stdout);
    let both = ran(&["--bundle", path(), "--cache", "x", "run", "-c", "1"]).exits(2);
    assert!(both.stderr.contains("cannot be used with"), "{}", both.stderr);
}

#[test]
fn a_file_is_packed_and_none_is_replaced() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("core.tar.zst");
    fs::write(&file, "mine").unwrap();
    let refused = ran(&["bundle", "--image", "core", "-o", file.to_str().unwrap()]).exits(2);
    assert!(refused.stderr.contains("already exists"), "{}", refused.stderr);
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    let packed = done(belljar().arg("--bundle").arg(&file).args(["run", "-c", "1"])).exits(3);
    assert!(packed.stderr.contains("tar --zstd -xf"), "{}", packed.stderr);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}
