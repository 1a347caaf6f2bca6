//! Locks a command's process down before it runs code, and reports what the kernel cannot enforce.

use std::path::{Path, PathBuf};

use belljar::lockdown::{Lockdown, LockdownError, Status, Support};
use belljar::request::Content;
use belljar::{Request, Runtime};
use clap::{Args, ValueEnum, ValueHint};
use serde::{Deserialize, Serialize};

use super::exit::{Usage, chain};
use super::printer::Printer;

// How the process is locked down. As a doc comment it would be the help text of commands.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Lock-down")]
pub(super) struct LockdownArgs {
    /// Lock this process down before any code runs. auto does so on Linux, and continues with a
    /// note if the kernel cannot do all of it; require fails unless Landlock and seccomp both hold,
    /// or on macOS and Windows what these have, which is less and hardly tried
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Auto)]
    #[arg(hide_possible_values = true)]
    pub(super) lockdown: When,
    /// Do not lock this process down: code that escapes its sandbox can do what this user can
    #[arg(long, conflicts_with_all = ["lockdown", "allow_read", "allow_write"])]
    pub(super) no_lockdown: bool,
    /// Keep this file or directory readable for the process, not for the code; repeatable
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(super) allow_read: Vec<PathBuf>,
    /// Keep this directory writable for the process, not for the code; repeatable
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) allow_write: Vec<PathBuf>,
}

/// How much has to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(super) enum When {
    Auto,
    Require,
}

/// A planned lock-down of this process.
pub(super) struct Locking<'a> {
    args: &'a LockdownArgs,
    printer: &'a Printer,
    plan: Lockdown,
    /// Notes about rights that stay and features that stop working.
    notes: Vec<String>,
}

impl LockdownArgs {
    /// Starts with what the engine needs and the options name. Returns `None` with `--no-lockdown`.
    pub(super) fn begin<'a>(
        &'a self,
        runtime: &Runtime,
        printer: &'a Printer,
    ) -> Option<Locking<'a>> {
        if self.no_lockdown {
            tracing::warn!("this process is not locked down");
            printer
                .note("not locked down: code that escapes its sandbox can do what this user can");
            return None;
        }
        let mut plan = runtime.lockdown();
        for path in &self.allow_read {
            plan = plan.read(path);
        }
        for path in &self.allow_write {
            plan = plan.write(path);
        }
        Some(Locking {
            args: self,
            printer,
            plan,
            notes: Vec::new(),
        })
    }

    /// The arguments that ask for these.
    #[cfg(feature = "kernel")]
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if self.no_lockdown {
            arguments.push("--no-lockdown".to_owned());
        }
        if self.lockdown == When::Require {
            arguments.push("--lockdown=require".to_owned());
        }
        for (name, paths) in
            [("--allow-read", &self.allow_read), ("--allow-write", &self.allow_write)]
        {
            for path in paths {
                arguments.extend([name.to_owned(), path.to_string_lossy().into_owned()]);
            }
        }
        arguments
    }
}

impl Locking<'_> {
    /// Changes what is kept.
    pub(super) fn keep(mut self, change: impl FnOnce(Lockdown) -> Lockdown) -> Self {
        self.plan = change(self.plan);
        self
    }

    /// Keeps what a request reads of this machine.
    pub(super) fn keep_inputs(mut self, request: &Request) -> Self {
        for mount in &request.mounts {
            self.plan = self.plan.read(&mount.host);
        }
        for file in &request.files {
            if let Content::Host(path) = &file.content {
                self.plan = self.plan.read(path);
            }
        }
        self
    }

    /// Keeps writing a file that is replaced when it is written, which takes its directory.
    pub(super) fn keep_replaced(mut self, file: &Path) -> Self {
        // The command refuses a directory, and what is beside it is nothing to keep.
        if file.is_dir() {
            return self;
        }
        let directory = directory_of(&file.canonicalize().unwrap_or_else(|_| file.to_owned()));
        if is_shared(&directory) {
            self.notes.push(format!(
                "the lock-down leaves {} writable, because the named file is in it; give the file \
                 a directory of its own",
                directory.display()
            ));
        }
        self.plan = self.plan.write(directory);
        self
    }

    /// Keeps writing files below a directory.
    pub(super) fn keep_directory(mut self, directory: &Path) -> Self {
        let real = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        if is_shared(&real) {
            self.notes.push(format!(
                "the lock-down leaves {} writable, because files are written there; use a \
                 directory that has nothing else in it",
                real.display()
            ));
        }
        self.plan = self.plan.write(directory);
        self
    }

    /// Keeps reading a file that may be replaced, which takes its directory. In a directory that is
    /// shared with other files, only the present file stays readable.
    #[cfg(all(unix, feature = "server"))]
    pub(super) fn keep_watched(mut self, file: &Path) -> Self {
        self.plan = self.plan.read(file);
        let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        for directory in [directory_of(file), directory_of(&real)] {
            if !is_shared(&directory) {
                self.plan = self.plan.read(directory);
            } else if directory == directory_of(&real) {
                self.notes.push(format!(
                    "{} is not read again if another file takes its place, because the lock-down \
                     leaves {} unreadable; give the file a directory of its own",
                    file.display(),
                    directory.display()
                ));
                break;
            }
        }
        self
    }

    /// Locks this process down, and returns what holds it.
    pub(super) fn lock(self) -> Result<Support, Usage> {
        let is_required = self.args.lockdown == When::Require;
        let status = if is_required {
            self.plan.apply()
        } else {
            self.plan.apply_by_default()
        };
        let (is_whole, held) = (status.is_whole(), Support::from(&status));
        tracing::debug!(%held, is_whole, "locked down");
        if !is_whole && is_required {
            let message = format!("this process is not locked down: {}", reasons(&status));
            return Err(Usage::new(message).hint("--lockdown=auto continues all the same"));
        }
        if let Some(other) = held.other {
            self.printer.note(&format!("locked down by {other}"));
        }
        // Elsewhere than on Linux nothing is missing that was asked for.
        if !is_whole && cfg!(target_os = "linux") {
            self.printer.note(&format!("not wholly locked down: {}", reasons(&status)));
        }
        for note in self.notes {
            self.printer.note(&note);
        }
        Ok(held)
    }

    /// Says so if the cache stays writable because something in it is missing.
    #[cfg(any(feature = "kernel", feature = "server"))]
    pub(super) fn note_cache(self, runtime: &Runtime) -> Self {
        if !runtime.is_set_up() {
            self.printer.note(
                "the cache stays writable, because something in it is missing; belljar setup completes it",
            );
        }
        self
    }
}

fn reasons(status: &Status) -> String {
    let chained = |error: &LockdownError| match std::error::Error::source(error) {
        Some(source) => chain(&anyhow::anyhow!("{error}: {source}")),
        None => error.to_string(),
    };
    status.failures().iter().map(chained).collect::<Vec<_>>().join("; ")
}

/// The directory that a file is or will be in.
fn directory_of(file: &Path) -> PathBuf {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    parent.canonicalize().unwrap_or_else(|_| parent.to_owned())
}

/// Whether a directory is shared with unrelated files: the root, the home directory, and the
/// directory for temporary files.
fn is_shared(directory: &Path) -> bool {
    let others = [Some(PathBuf::from("/")), std::env::home_dir(), Some(std::env::temp_dir())];
    others
        .into_iter()
        .flatten()
        .any(|other| other.canonicalize().is_ok_and(|other| other == *directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_directory_is_in_the_current_one() {
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(directory_of(Path::new("x")), here);
        assert_eq!(directory_of(Path::new("./x")), here);
    }

    #[test]
    fn what_others_keep_their_files_in_is_shared() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_shared(&folder.path().canonicalize().unwrap()));
        for path in [PathBuf::from("/"), std::env::temp_dir()] {
            assert!(is_shared(&path.canonicalize().unwrap()), "{}", path.display());
        }
    }
}
