//! Code, files and mounts given by the user.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use belljar::value::Value;

use super::args::SourceArgs;
use super::exit::{Usage, chain};

/// The code given by the arguments.
pub(super) fn code(source: SourceArgs) -> Result<String, Usage> {
    let (name, bytes) = match (source.code, source.script) {
        (Some(code), _) => return Ok(code),
        (None, Some(path)) => (path.display().to_string(), read(&path)?),
        (None, None) => return Err(Usage::new("no code: give FILE, - or -c CODE")),
    };
    String::from_utf8(bytes).map_err(|_| Usage::new(format!("{name} is not UTF-8 text")))
}

/// Reads a file, or standard input for `-`.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Usage> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        let read = io::stdin().lock().read_to_end(&mut bytes);
        return read.map(|_| bytes).map_err(|e| unreadable("standard input", e));
    }
    fs::read(path).map_err(|e| unreadable(&path.display().to_string(), e))
}

/// An error for input that cannot be read.
pub(super) fn unreadable(name: &str, error: io::Error) -> Usage {
    let error = anyhow::Error::new(error).context(format!("cannot read {name}"));
    Usage::new(chain(&error))
}

/// `PATH[:NAME]`: a host file and its path in the workspace.
pub(super) fn file(text: &str) -> Result<(String, PathBuf), Usage> {
    let (host, name) = match text.rsplit_once(':') {
        Some((host, name)) if !Path::new(text).exists() && !host.is_empty() => (host, name),
        _ => (text, ""),
    };
    let host = PathBuf::from(host);
    let metadata = host.metadata().map_err(|e| unreadable(&host.display().to_string(), e))?;
    if metadata.is_dir() {
        return Err(Usage::new(format!("{} is a directory", host.display()))
            .hint(format!("show a directory to the code with --mount {}:/data", host.display())));
    }
    fs::File::open(&host).map_err(|e| unreadable(&host.display().to_string(), e))?;
    let own_name = || {
        let name = host.file_name().map(|name| name.to_string_lossy().into_owned());
        name.ok_or_else(|| Usage::new(format!("{} has no file name", host.display())))
    };
    let name = match name {
        "" => own_name()?,
        folder if folder.ends_with('/') => format!("{folder}{}", own_name()?),
        name => name.to_owned(),
    };
    Ok((name, host))
}

/// Parses all `--file` options. No two may have the same name in the workspace.
pub(super) fn files(texts: &[String]) -> Result<Vec<(String, PathBuf)>, Usage> {
    let mut files: Vec<(String, PathBuf)> = Vec::with_capacity(texts.len());
    for text in texts {
        let (name, host) = file(text)?;
        if let Some((_, other)) = files.iter().find(|(taken, _)| *taken == name) {
            let both = format!("{} and {}", other.display(), host.display());
            return Err(Usage::new(format!("{both} would both be {name} in the workspace"))
                .hint(format!("give one another name: --file {}:other-{name}", host.display())));
        }
        files.push((name, host));
    }
    Ok(files)
}

/// `HOST:GUEST`: a host directory, and its absolute path in the guest.
pub(super) fn mount(text: &str) -> Result<(PathBuf, String), String> {
    match text.rsplit_once(':') {
        Some((host, guest)) if !host.is_empty() && guest.starts_with('/') => {
            Ok((PathBuf::from(host), guest.to_owned()))
        }
        _ => Err("not HOST:GUEST with an absolute GUEST, such as ./data:/data".to_owned()),
    }
}

/// `NAME=JSON`.
pub(super) fn value(text: &str) -> Result<(String, Value), String> {
    let Some((name, json)) = text.split_once('=').filter(|(name, _)| !name.is_empty()) else {
        return Err("not NAME=JSON".to_owned());
    };
    match serde_json::from_str(json) {
        Ok(value) => Ok((name.to_owned(), value)),
        Err(error) => Err(format!("the value after = is invalid: {error}; text needs quotes")),
    }
}

/// `NAME=VALUE`.
pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("not NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_files(check: impl FnOnce(&Path)) {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.csv", "b:c.csv"] {
            fs::write(folder.path().join(name), "x").unwrap();
        }
        check(folder.path());
    }

    fn name_of(text: &str) -> String {
        file(text).unwrap().0
    }

    #[test]
    fn a_file_gets_the_name_that_its_option_says() {
        with_files(|folder| {
            let a = folder.join("a.csv").display().to_string();
            assert_eq!(name_of(&a), "a.csv");
            assert_eq!(name_of(&format!("{a}:in/x.csv")), "in/x.csv");
            assert_eq!(name_of(&format!("{a}:in/")), "in/a.csv");
            assert_eq!(name_of(&folder.join("b:c.csv").display().to_string()), "b:c.csv");
        });
    }

    #[test]
    fn a_directory_is_for_mount() {
        with_files(|folder| {
            let error = file(&folder.display().to_string()).unwrap_err();
            assert!(error.to_string().ends_with("is a directory"), "{error}");
        });
    }

    #[test]
    fn two_files_need_two_names() {
        with_files(|folder| {
            let a = folder.join("a.csv").display().to_string();
            assert!(files(&[a.clone(), format!("{a}:b.csv")]).is_ok());
            assert!(files(&[a.clone(), a]).is_err());
        });
    }

    #[test]
    fn mounts_and_variables_are_split() {
        assert_eq!(mount("c:\\x:/data").unwrap(), ("c:\\x".into(), "/data".to_owned()));
        assert!(mount("data").is_err() && mount(":/data").is_err() && mount("a:b").is_err());
        assert_eq!(variable("A=b=c").unwrap(), ("A".to_owned(), "b=c".to_owned()));
        assert!(variable("A").is_err() && variable("=b").is_err());
    }
}
