//! The kernelspec, which registers the kernel with Jupyter.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Default name of the kernel.
pub const NAME: &str = "belljar";

/// Default display name.
pub const DISPLAY_NAME: &str = "belljar (sandboxed Python)";

/// The kernel's logo, as SVG.
pub const LOGO: &[u8] = include_bytes!("logo.svg");

/// Where to install kernelspecs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the user's directory.
    User,
    /// Below this directory, such as a Python environment.
    Prefix(PathBuf),
}

/// The kernelspec cannot be installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The name is invalid.
    #[error("{0:?} is not a valid kernel name: use letters, digits, '.', '-' and '_'")]
    Name(String),
    /// The user's directory is unknown.
    #[error("cannot find the user's directory for Jupyter's data")]
    NoHome,
    /// It cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Creates the kernelspec of a kernel started with these arguments, followed by `-f FILE`.
#[must_use]
pub fn kernelspec(arguments: &[String], display_name: &str) -> Value {
    let mut argv = arguments.to_vec();
    argv.extend(["-f".to_owned(), "{connection_file}".to_owned()]);
    json!({
        "argv": argv,
        "display_name": display_name,
        "language": "python",
        "interrupt_mode": "message",
        "metadata": {"debugger": false},
    })
}

/// Installs a kernelspec. Returns its directory.
///
/// # Errors
///
/// When the name is invalid, or the files cannot be written.
pub fn install(place: &Place, name: &str, spec: &Value) -> Result<PathBuf, SpecError> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_fine) {
        return Err(SpecError::Name(name.to_owned()));
    }
    let directory = directory(place)?.join("kernels").join(name.to_lowercase());
    let failed = |path: &Path, source| SpecError::Write {
        path: path.to_owned(),
        source,
    };
    fs::create_dir_all(&directory).map_err(|e| failed(&directory, e))?;
    let text = format!("{spec:#}\n");
    for (file, bytes) in [("kernel.json", text.as_bytes()), ("logo-svg.svg", LOGO)] {
        let path = directory.join(file);
        fs::write(&path, bytes).map_err(|e| failed(&path, e))?;
    }
    Ok(directory)
}

/// Jupyter's data directory.
fn directory(place: &Place) -> Result<PathBuf, SpecError> {
    match place {
        Place::Prefix(prefix) => Ok(prefix.join("share").join("jupyter")),
        Place::User => user_directory().ok_or(SpecError::NoHome),
    }
}

fn user_directory() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(own) = set("JUPYTER_DATA_DIR") {
        return Some(own);
    }
    let dirs = directories::BaseDirs::new()?;
    Some(if cfg!(target_os = "macos") {
        dirs.home_dir().join("Library").join("Jupyter")
    } else if cfg!(windows) {
        dirs.data_dir().join("jupyter")
    } else {
        dirs.data_local_dir().join("jupyter")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernelspec_is_where_jupyter_looks() {
        let prefix = tempfile::tempdir().unwrap();
        let place = Place::Prefix(prefix.path().to_owned());
        let arguments = ["/bin/belljar", "kernel", "--memory", "512"].map(str::to_owned);
        let spec = kernelspec(&arguments, DISPLAY_NAME);
        let directory = install(&place, NAME, &spec).unwrap();
        assert_eq!(directory, prefix.path().join("share/jupyter/kernels/belljar"));
        let text = fs::read_to_string(directory.join("kernel.json")).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["argv"].as_array().unwrap()[4..], ["-f", "{connection_file}"]);
        assert_eq!(read["interrupt_mode"], "message");
        assert!(directory.join("logo-svg.svg").exists());
    }

    #[test]
    fn names_are_no_paths() {
        let place = Place::Prefix(PathBuf::from("/nowhere"));
        for name in ["", "..", ".a", "a/b", "a b"] {
            let error = install(&place, name, &json!({})).unwrap_err();
            assert!(matches!(error, SpecError::Name(_)), "{name:?}");
        }
    }
}
