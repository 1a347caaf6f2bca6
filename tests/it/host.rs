//! The host's own Python, for attacks that must work there, and for comparing results.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::support::{program, programs};

/// The host's Python, by default `python3`; `BELLJAR_HOST_PYTHON` names one with more packages.
pub fn python() -> Command {
    let name = std::env::var_os("BELLJAR_HOST_PYTHON").unwrap_or_else(|| "python3".into());
    let mut command = Command::new(name);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("PYTHONPATH", programs()).env("PYTHONDONTWRITEBYTECODE", "1").arg("-u");
    command
}

/// Runs a guest program on the host, in `dir`.
pub fn run(name: &str, dir: &Path, args: &[&str]) -> Output {
    let path = programs().join(name).with_extension("py");
    python().arg(path).args(args).current_dir(dir).output().expect("python3 is installed")
}

/// Whether the host's Python has every module that a program imports.
pub fn has_modules_of(name: &str) -> bool {
    let source = program(name);
    let mut imports = source.lines().filter(|l| l.starts_with("import ") || l.starts_with("from "));
    imports.all(|line| python().args(["-c", line]).output().is_ok_and(|o| o.status.success()))
}

/// A program that runs on the host until this is dropped.
pub struct Running {
    name: String,
    child: Child,
    _dir: tempfile::TempDir,
}

/// Starts a program on the host, and waits until it reports that it has started.
#[track_caller]
pub fn start(name: &str) -> Running {
    let dir = tempfile::tempdir().unwrap();
    let path = programs().join(name).with_extension("py");
    let mut child = python().arg(path).current_dir(dir.path()).spawn().unwrap();
    let mut said = [0; 7];
    let read = child.stdout.as_mut().unwrap().read_exact(&mut said);
    assert!(read.is_ok() && &said == b"started", "{name} does not get going on the host");
    Running {
        name: name.to_owned(),
        child,
        _dir: dir,
    }
}

impl Running {
    /// Checks that it has not exited.
    #[track_caller]
    pub fn goes_on(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "{} came to an end on the host: {ended:?}", self.name);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
