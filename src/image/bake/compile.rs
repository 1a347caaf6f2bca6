//! Compiles the modules of packages to the interpreter's own code, in a sandbox.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use belljar_files::{DEFAULT_MEMORY, MAX_NAME, MAX_PATH};

use super::packages::Files;
use super::{LONGEST, OUTPUT, budget, stack};
use crate::api::request::Deterministic;
use crate::artifact::cache::{Cache, create_private_dir};
use crate::artifact::image::Image;
use crate::guest::interpreter::Interpreter;
use crate::image::error::{BakeError, MissingCode};
use crate::sandbox::{
    Answer, Ended, Factory, Host, InstanceError, Library, Options, PACKAGES_PATH, Roots, Turn,
    limits,
};
use crate::util::progress::{Progress, Stage, Step};

const PROGRAM: &str = include_str!("../../../python-wasm/linking/compile.py");
/// Modules that one interpreter compiles.
const MODULES: usize = 200;
/// Fuel for them. Modules of usual packages need a hundredth.
const FUEL: u64 = 100_000_000_000;
/// The most code of all modules, in bytes. Modules behind it have no code.
const MAX_COMPILED: usize = 1 << 30;
/// Part of the name of a file with code, which Python calls the cache tag.
const TAG: &str = ".cpython-315.pyc";

/// Compiles packages of an image.
pub(crate) struct Compiler<'a> {
    pub factory: &'a Factory,
    /// The unmodified interpreter.
    pub boot: Image,
    pub library: Library,
    pub cache: &'a Cache,
    pub progress: &'a dyn Progress,
}

impl Compiler<'_> {
    /// Returns the files with the code of all modules that compile. Blocks.
    pub(crate) fn compile(&self, image: &str, files: &Files) -> Result<Files, BakeError> {
        let modules = files.iter().filter_map(|(path, source)| {
            let to = place_of(path).filter(|to| {
                let folder = to.rsplit_once('/').map(|(folder, _)| folder);
                !files.contains_key(to) && !folder.is_some_and(|folder| files.contains_key(folder))
            })?;
            Some((path.clone(), source.clone(), to))
        });
        let modules: Vec<_> = modules.rev().collect();
        if modules.is_empty() {
            return Ok(Files::new());
        }
        let _step = Step::begin(self.progress, Stage::Bake, image);
        let work = Arc::new(Mutex::new(Work {
            modules,
            ..Work::default()
        }));
        let folder = self.cache.dir("baking")?;
        let dir = tempfile::tempdir_in(&folder).map_err(BakeError::System)?;
        let run = || {
            tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .map_err(BakeError::System)?
                .block_on(self.follow(image, dir.path().join("workspace"), &work))
        };
        // On its own thread, because the caller's may belong to an asynchronous runtime.
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("belljar-bake".into());
            let running = thread.spawn_scoped(scope, run).map_err(BakeError::System)?;
            running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        let compiled = std::mem::take(&mut lock(&work).compiled);
        Ok(compiled)
    }

    /// Runs interpreters until no module is left. The module at which one breaks, or has no fuel
    /// left, is left out.
    async fn follow(
        &self,
        image: &str,
        dir: PathBuf,
        work: &Arc<Mutex<Work>>,
    ) -> Result<(), BakeError> {
        let deadline = Instant::now() + LONGEST;
        create_private_dir(&dir)?;
        loop {
            let left = {
                let mut work = lock(work);
                work.turn = MODULES;
                work.modules.len()
            };
            let mut interpreter = self.start(&dir, work)?;
            let mut budget = budget(Some(FUEL));
            budget.deadline = deadline;
            let ended = interpreter.drive(Turn::Source(PROGRAM), &budget, OUTPUT).await?.ended;
            let failed = match ended {
                Ended::Returned(0) if lock(work).modules.is_empty() => return Ok(()),
                Ended::Returned(0) if lock(work).modules.len() < left => continue,
                Ended::Missing(missing) => {
                    return Err(BakeError::Missing {
                        image: image.to_owned(),
                        missing: MissingCode(missing),
                    });
                }
                failed => failed,
            };
            if Instant::now() >= deadline || lock(work).modules.len() == left {
                let output = interpreter.take_stderr().text;
                let path = lock(work).current.take().unwrap_or_default();
                return Err(BakeError::Python {
                    image: image.to_owned(),
                    step: "compiling packages",
                    output: format!("{output}{path}: {failed:?}"),
                });
            }
            let path = lock(work).current.take();
            tracing::warn!(?failed, ?path, "a module cannot be compiled");
        }
    }

    fn start(&self, dir: &Path, work: &Arc<Mutex<Work>>) -> Result<Interpreter, InstanceError> {
        let files = Roots::new(dir.to_owned(), DEFAULT_MEMORY, self.library.clone())
            .and_then(|roots| roots.files(&[], None));
        let mut files = files.map_err(|errno| InstanceError::start(errno.into()))?;
        files.set_limits(limits(1 << 30, 10_000));
        let options = Options {
            image: &self.boot,
            links: false,
            files: &files,
            aliases: &[],
            mounts: &[],
            memory: 2 << 30,
            // So that the same modules give the same code.
            deterministic: Some(&Deterministic::default()),
            kept: None,
        };
        let front = Front(Arc::clone(work));
        Interpreter::start_behind(self.factory, &options, |_| Box::new(front))
    }
}

/// Returns the path of a module's code; `None` if `path` is not a module's, or that is too long.
fn place_of(path: &str) -> Option<String> {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.strip_suffix(".py").filter(|stem| !stem.is_empty())?;
    let separator = if dir.is_empty() { "" } else { "/" };
    let place = format!("{dir}{separator}__pycache__/{stem}{TAG}");
    (stem.len() + TAG.len() <= MAX_NAME && place.len() <= MAX_PATH).then_some(place)
}

#[derive(Default)]
struct Work {
    /// Path, source, and path of the code; the next module is the last.
    modules: Vec<(String, Vec<u8>, String)>,
    /// Modules that are left for this interpreter.
    turn: usize,
    /// Path of the code of the module that is being compiled.
    current: Option<String>,
    compiled: Files,
    /// Bytes of the code.
    size: usize,
}

fn lock(work: &Mutex<Work>) -> MutexGuard<'_, Work> {
    work.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the modules, and takes their code.
struct Front(Arc<Mutex<Work>>);

impl Host for Front {
    fn answer(&mut self, frame: &[u8], memory: &[u8]) -> Answer {
        match frame {
            b"u" => {
                let mut work = lock(&self.0);
                let Some(turn) = work.turn.checked_sub(1) else {
                    return Answer::Bytes(Vec::new());
                };
                let Some((path, source, to)) = work.modules.pop() else {
                    return Answer::Bytes(Vec::new());
                };
                work.turn = turn;
                work.current = Some(to);
                let path = format!("{PACKAGES_PATH}/{path}\0");
                Answer::Bytes([path.into_bytes(), source].concat())
            }
            [b'c', code @ ..] => {
                let mut work = lock(&self.0);
                let size = work.size.saturating_add(code.len());
                let Some(to) = work.current.take().filter(|_| size <= MAX_COMPILED) else {
                    return Answer::Refused;
                };
                work.size = size;
                work.compiled.insert(to, code.to_vec());
                Answer::Bytes(Vec::new())
            }
            b"k" => stack::words(memory).map_or(Answer::Refused, Answer::Words),
            _ => Answer::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_gets_some_modules_and_their_code_is_bounded() {
        let module = |name: &str| (name.to_owned(), vec![b'#'], format!("{name}c"));
        let work = Arc::new(Mutex::new(Work {
            modules: vec![module("c.py"), module("b.py"), module("a.py")],
            turn: 2,
            ..Work::default()
        }));
        let mut front = Front(Arc::clone(&work));
        let mut ask = |frame: &[u8]| front.answer(frame, &[]);
        assert!(matches!(ask(b"u"), Answer::Bytes(bytes) if bytes == b"/packages/a.py\0#"));
        assert!(matches!(ask(b"ccode"), Answer::Bytes(_)));
        assert!(matches!(ask(b"ccode"), Answer::Refused));
        assert!(matches!(ask(b"u"), Answer::Bytes(bytes) if bytes == b"/packages/b.py\0#"));
        lock(&work).size = MAX_COMPILED - 3;
        assert!(matches!(ask(b"ccode"), Answer::Refused));
        assert!(matches!(ask(b"u"), Answer::Bytes(bytes) if bytes.is_empty()));
        let work = lock(&work);
        assert_eq!((work.modules.len(), work.compiled.len()), (1, 1));
    }

    #[test]
    fn code_is_placed_where_the_importer_looks() {
        let place = |path: &str| place_of(path);
        assert_eq!(place("tea.py").as_deref(), Some("__pycache__/tea.cpython-315.pyc"));
        assert_eq!(place("a/b/c.d.py").as_deref(), Some("a/b/__pycache__/c.d.cpython-315.pyc"));
        for path in ["tea.pyi", "a/tea.txt", ".py", "a/.py", "tea.py/x"] {
            assert_eq!(place(path), None, "{path}");
        }
        assert_eq!(place(&format!("{}.py", "x".repeat(MAX_NAME - 3))), None);
        assert_eq!(place(&format!("{}x.py", "x/".repeat(MAX_PATH / 2 - 2))), None);
    }
}
