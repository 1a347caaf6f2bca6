//! Errors of bundles.

use std::io;
use std::path::{Path, PathBuf};

use crate::util::cause::Cause;
use crate::util::error_code::{Code, Coded};
use crate::util::hint::Hint;

/// A bundle cannot be used or made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// The operating system refused an operation.
    #[error("cannot {action} {path}", path = path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The path concerned.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The directory is not a bundle, or an incomplete one.
    #[error("{path} is not a complete bundle: {reason}", path = path.display())]
    Damaged {
        /// The bundle.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The bundle is compressed and must be unpacked first.
    #[error("{path} is a file, but a bundle must be a directory", path = path.display())]
    Packed {
        /// The file.
        path: PathBuf,
    },
    /// The hash of the bundle's manifest differs from the required hash.
    #[error(
        "{path} is not the required bundle: the SHA-256 of its manifest is {found}, expected \
         {expected}",
        path = path.display()
    )]
    Other {
        /// The bundle.
        path: PathBuf,
        /// SHA-256 of the manifest, in hexadecimal.
        found: String,
        /// The required hash.
        expected: String,
    },
    /// The bundle is for another program or machine.
    #[error("the bundle {path} cannot be used here: {reason}", path = path.display())]
    Foreign {
        /// The bundle.
        path: PathBuf,
        /// What does not match.
        reason: String,
    },
    /// Its native code cannot be loaded.
    #[error("the native code of the bundle {path} cannot be loaded", path = path.display())]
    Code {
        /// The bundle.
        path: PathBuf,
        /// Error of wasmtime.
        source: Cause,
    },
    /// No bundle was given, and this build of belljar has no compiler.
    #[error("this build of belljar has no compiler, and no bundle was given")]
    NoCompiler,
    /// This program cannot compile for the requested processor or system.
    #[error("cannot make a bundle for {target}: {reason}")]
    Target {
        /// The requested target.
        target: String,
        /// Why it is impossible.
        reason: String,
    },
    /// The native code of an image's package cannot be used.
    #[error("the native module {module} of the image {image} cannot be loaded from the bundle \
             {path}", path = path.display())]
    Native {
        /// The bundle.
        path: PathBuf,
        /// The image.
        image: String,
        /// Name of the module.
        module: String,
        /// Cause of the failure.
        source: Cause,
    },
    /// A runtime that runs from a bundle cannot make or change bundles.
    #[error("cannot {action}: this runtime runs from the bundle {path}, which is read-only",
            path = path.display())]
    Fixed {
        /// The attempted action.
        action: &'static str,
        /// The bundle.
        path: PathBuf,
    },
}

impl BundleError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}

impl Coded for BundleError {
    fn code(&self) -> Code {
        match self {
            Self::Io { .. } => Code::BundleIo,
            Self::Damaged { .. } | Self::Packed { .. } => Code::BundleDamaged,
            Self::Other { .. } => Code::BundleOther,
            Self::Foreign { .. } | Self::Code { .. } => Code::BundleForeign,
            Self::NoCompiler => Code::BundleMissing,
            Self::Target { .. } => Code::BundleTarget,
            Self::Native { .. } => Code::BundleNative,
            Self::Fixed { .. } => Code::BundleFixed,
        }
    }
}

impl Hint for BundleError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => {
                    "name the directory of a bundle with --bundle or BELLJAR_BUNDLE; `belljar \
                     bundle` makes one"
                        .into()
                }
                io::ErrorKind::PermissionDenied => {
                    "let this user read the bundle: chmod -R a+rX DIR".into()
                }
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "free some space there, or make the bundle elsewhere".into()
                }
                io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => {
                    "name a directory that is not there yet".into()
                }
                _ => return None,
            },
            Self::Damaged { .. } => {
                "copy it here again, or make it again with `belljar bundle`".into()
            }
            Self::Packed { path } => format!(
                "unpack it into a directory: mkdir DIR && tar --zstd -xf {} -C DIR",
                path.display()
            ),
            Self::Other { .. } => {
                "take the bundle from where its hash comes from, or demand the hash of this one"
                    .into()
            }
            Self::Foreign { .. } => {
                "make it again with this build of belljar, for this system and processor: `belljar \
                 bundle --help`"
                    .into()
            }
            Self::Code { source, .. } | Self::Native { source, .. }
                if is_not_executable(source) =>
            {
                "its file system must not be mounted with noexec, and nothing may forbid this \
                 process to map a file as code"
                    .into()
            }
            Self::Code { .. } | Self::Native { .. } => {
                "make it again with this build of belljar".into()
            }
            Self::NoCompiler => {
                "name a bundle with --bundle or BELLJAR_BUNDLE; `belljar bundle` of a \
                                 build that has the compiler makes one"
                    .into()
            }
            Self::Target { .. } => "`belljar bundle --help` says which there are".into(),
            Self::Fixed { .. } => "do it in a cache, without --bundle and BELLJAR_BUNDLE".into(),
        })
    }
}

/// Whether the system did not permit mapping the file as code.
fn is_not_executable(cause: &Cause) -> bool {
    let mut error: Option<&(dyn std::error::Error + 'static)> = Some(cause);
    while let Some(one) = error {
        let text = one.to_string();
        if text.contains("Permission denied") || text.contains("Operation not permitted") {
            return true;
        }
        error = one.source();
    }
    false
}
