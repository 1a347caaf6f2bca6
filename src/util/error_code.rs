//! The stable code of each error, and who is responsible for it.

/// Who is responsible for an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Blame {
    /// The caller: the same request would fail again.
    Caller,
    /// Guest code that runs on behalf of another operation: the code of a recipe, or the initial
    /// code of a session. Failures of other guest code are in the outcome.
    Guest,
    /// The engine.
    Engine,
    /// The machine: its disk, memory, network or permissions, damaged files, or too much load. The
    /// same request may succeed later or on another machine.
    Machine,
}

impl Blame {
    /// Returns the name: `caller`, `guest`, `engine` or `machine`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Guest => "guest",
            Self::Engine => "engine",
            Self::Machine => "machine",
        }
    }
}

/// An error with a stable code.
pub(crate) trait Coded {
    fn code(&self) -> Code;
}

macro_rules! codes {
    ($($name:ident = $text:literal, $blame:ident;)*) => {
        /// The stable codes. `docs/reference/errors.md` lists them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Code {
            $($name,)*
        }

        impl Code {
            #[cfg(test)]
            const ALL: &[Self] = &[$(Self::$name,)*];

            pub(crate) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            pub(crate) fn blame(self) -> Blame {
                match self {
                    $(Self::$name => Blame::$blame,)*
                }
            }
        }
    };
}

codes! {
    Refused = "refused", Caller;
    Busy = "busy", Machine;
    NotBlocking = "not_blocking", Caller;
    Forked = "forked", Caller;
    NoSuchFile = "no_such_file", Caller;
    System = "system", Machine;
    Memory = "memory", Machine;

    CacheNoHome = "cache.no_home", Machine;
    CacheNotDirectory = "cache.not_a_directory", Machine;
    CacheIo = "cache.io", Machine;
    CacheTampered = "cache.tampered", Machine;

    BundleIo = "bundle.io", Machine;
    BundleDamaged = "bundle.damaged", Machine;
    BundleOther = "bundle.other", Machine;
    BundleForeign = "bundle.foreign", Machine;
    BundleTarget = "bundle.target", Caller;
    BundleNative = "bundle.native", Machine;
    BundleMissing = "bundle.missing", Caller;
    BundleFixed = "bundle.fixed", Caller;

    ArtifactDownload = "artifact.download", Machine;
    ArtifactWheel = "artifact.wheel", Caller;
    ArtifactOtherWheel = "artifact.other_wheel", Caller;
    ArtifactPin = "artifact.pin", Machine;
    ArtifactUnpack = "artifact.unpack", Machine;

    ModuleEngine = "code.engine", Machine;
    ModulePass = "code.pass", Engine;
    ModuleSplit = "code.split", Engine;
    ModuleCompile = "code.compile", Engine;
    ModuleLoad = "code.load", Engine;

    ImageUnknown = "image.unknown", Caller;
    ImageNotInBundle = "image.not_in_bundle", Caller;
    ImageBuiltIn = "image.built_in", Caller;
    ImageRecipe = "image.recipe", Machine;
    ImageFormat = "image.format", Machine;
    ImageIo = "image.io", Machine;

    RecipeRead = "recipe.read", Caller;
    RecipeParse = "recipe.parse", Caller;
    RecipeField = "recipe.field", Caller;
    RecipeRun = "recipe.code", Guest;
    RecipeOpenFiles = "recipe.open_files", Guest;

    BakeBuiltIn = "bake.built_in", Engine;
    BakePython = "bake.python", Engine;
    BakeInterrupt = "bake.interrupt", Engine;
    BakeRefused = "bake.refused", Engine;
    BakePackage = "bake.package", Machine;
    BakeExtension = "bake.extension", Caller;
    BakeDownload = "bake.download", Machine;
    BakeSystem = "bake.system", Machine;

    InstanceStart = "instance.start", Engine;
    InstanceDirectory = "instance.directory", Machine;
    InstanceReopen = "instance.reopen", Machine;

    WorkspaceIo = "workspace.io", Machine;
    WorkspaceFull = "workspace.full", Machine;
    WorkspaceInput = "workspace.input", Caller;
    WorkspaceCopies = "workspace.copies", Caller;

    SessionNotFound = "session.not_found", Caller;
    SessionId = "session.id", Caller;
    SessionIdTaken = "session.id_taken", Caller;
    SessionTooMany = "session.too_many", Machine;
    SessionInitialRun = "session.initial_code", Guest;
    SessionNoState = "session.no_state", Caller;
    SessionNotKept = "session.not_kept", Machine;
    SessionWaiting = "session.waiting", Caller;
    SessionNotWaiting = "session.not_waiting", Caller;
    SessionNoCall = "session.no_call", Caller;
    SessionBadAnswer = "session.bad_answer", Caller;
    SessionNotCheckpoint = "session.not_a_checkpoint", Caller;
    SessionOtherVersion = "session.other_version", Caller;
    SessionFormat = "session.format", Caller;
    SessionImage = "session.image", Caller;
    SessionMounts = "session.mounts", Caller;
    SessionNoSnapshot = "session.no_snapshot", Caller;
    SessionLabels = "session.labels", Caller;
    SessionPath = "session.path", Caller;
    SessionFull = "session.full", Caller;
    SessionSource = "session.source", Caller;
    SessionQuestion = "session.question", Guest;
    SessionRead = "session.read", Caller;
    SessionWrite = "session.write", Machine;
    SessionElsewhere = "session.elsewhere", Machine;
    SessionTaken = "session.taken", Machine;
    SessionNotHeld = "session.not_held", Caller;
    SessionRecord = "session.record", Machine;

    StoreKey = "store.key", Caller;
    StoreTooLarge = "store.too_large", Machine;
    StoreFailed = "store.failed", Machine;
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCS: &str = include_str!("../../docs/reference/errors.md");

    #[test]
    fn every_code_is_used_once_and_documented_with_whose_fault_it_is() {
        let mut codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        for code in Code::ALL {
            let row = format!("| `{}` | {} | ", code.as_str(), code.blame().as_str());
            assert!(DOCS.contains(&row), "docs/reference/errors.md has no row {row}");
        }
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Code::ALL.len(), "a code stands for two errors");
    }

    #[test]
    fn every_code_that_is_documented_exists() {
        let table = DOCS.split("### Codes").nth(1).and_then(|rest| rest.split("\n## ").next());
        let rows = table.unwrap_or_default().lines().filter(|line| line.starts_with("| `"));
        assert_eq!(rows.count(), Code::ALL.len());
    }
}
