//! Maps clients' paths to the sandbox's directories.

use axum::http::StatusCode;

use super::fault::Fault;

/// A sandbox's directory, as clients and code see it.
pub(super) const HOME: &str = "/home/user";
/// The same directory, for code that expects to be root.
pub(super) const ROOT: &str = "/root";
/// The same directory by the engine's name.
pub(super) const WORKSPACE: &str = "/workspace";
/// The directory for temporary files, shared by all contexts.
pub(super) const TEMPORARY: &str = "/tmp";

/// The directories of a sandbox, for error messages.
pub(super) const PLACES: &str = "/home/user, /root and /tmp";

/// A path inside the sandbox's directories in the engine's form: absolute, without `.` and `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Inside(String);

/// Where a path points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Inside(Inside),
    /// A path outside the sandbox's directories.
    Outside(String),
}

impl Inside {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn absolute(&self) -> String {
        absolute(&self.0)
    }

    /// The last component, as clients see it.
    pub(super) fn name(&self) -> String {
        name(&self.absolute()).to_owned()
    }

    /// Whether this is one of the top directories.
    pub(super) fn is_top(&self) -> bool {
        [WORKSPACE, TEMPORARY].contains(&self.as_str())
    }

    /// The parent directory, or `None` if that is a top directory.
    pub(super) fn dir(&self) -> Option<Self> {
        let (dir, _) = self.0.rsplit_once('/')?;
        let dir = Self(dir.to_owned());
        (!self.is_top() && !dir.is_top()).then_some(dir)
    }
}

/// Converts an engine path to the clients' form.
pub(super) fn absolute(path: &str) -> String {
    match path.strip_prefix(WORKSPACE) {
        Some(rest) => format!("{HOME}{rest}"),
        None => path.to_owned(),
    }
}

/// The last component of a path.
pub(super) fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Resolves an absolute path, or a path relative to the home directory. `.` and `..` are resolved
/// by name, because links are not followed.
pub(super) fn place(path: &str) -> Result<Place, Fault> {
    if path.contains('\0') {
        return Err(Fault::invalid("a path cannot contain a NUL character"));
    }
    let path = match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{HOME}{rest}"),
        _ if path.starts_with('/') => path.to_owned(),
        _ => format!("{HOME}/{path}"),
    };
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    let path = format!("/{}", names.join("/"));
    let tops =
        [(HOME, WORKSPACE), (ROOT, WORKSPACE), (WORKSPACE, WORKSPACE), (TEMPORARY, TEMPORARY)];
    let inside = tops.iter().find_map(|(theirs, ours)| {
        let rest = path.strip_prefix(theirs)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| format!("{ours}{rest}"))
    });
    Ok(inside.map_or(Place::Outside(path), |inside| Place::Inside(Inside(inside))))
}

/// Resolves a path to read. Paths outside the sandbox do not exist.
pub(super) fn existing(path: &str) -> Result<Inside, Fault> {
    match place(path)? {
        Place::Inside(inside) => Ok(inside),
        Place::Outside(path) => {
            let message = format!("path '{path}' does not exist: clients can read only {PLACES}");
            Err(Fault::not_found(message))
        }
    }
}

/// Resolves a path to write. Paths outside the sandbox are not writable.
pub(super) fn writable(path: &str) -> Result<Inside, Fault> {
    match place(path)? {
        Place::Inside(inside) => Ok(inside),
        Place::Outside(path) => Err(Fault::invalid(format!(
            "path '{path}' cannot be written: clients can write only to {PLACES}"
        ))),
    }
}

/// The error for a path that should exist.
pub(super) fn missing(error: belljar::Error, path: &Inside) -> Fault {
    let fault = Fault::from(error);
    if fault.status == StatusCode::NOT_FOUND {
        return Fault::not_found(format!("path '{}' does not exist", path.absolute()));
    }
    fault
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn inside(path: &str) -> Option<String> {
        match place(path) {
            Ok(Place::Inside(inside)) => Some(inside.absolute()),
            _ => None,
        }
    }

    #[test]
    fn paths_are_those_of_the_home_directory_and_of_tmp() {
        for (path, expected) in [
            ("a.txt", "/home/user/a.txt"),
            ("/home/user/a.txt", "/home/user/a.txt"),
            ("/workspace/a/b", "/home/user/a/b"),
            ("/root", "/home/user"),
            ("/root/a", "/home/user/a"),
            ("~/a", "/home/user/a"),
            ("~", "/home/user"),
            ("", "/home/user"),
            (".", "/home/user"),
            ("/home/user/", "/home/user"),
            ("//home//user//a/./b/../c", "/home/user/a/c"),
            ("/etc/../home/user/x", "/home/user/x"),
            ("~x", "/home/user/~x"),
            ("a\\..\\b", "/home/user/a\\..\\b"),
            ("/tmp", "/tmp"),
            ("/tmp/a/../b/", "/tmp/b"),
            ("../../tmp/x", "/tmp/x"),
            ("/tmp/../home/user/x", "/home/user/x"),
        ] {
            assert_eq!(inside(path).as_deref(), Some(expected), "{path}");
        }
    }

    #[test]
    fn nothing_leads_out() {
        for path in
            ["/", "/etc/passwd", "../../etc/passwd", "~/../x", "/home/user2/a", "/rooted", "/tmpx"]
        {
            assert_eq!(inside(path), None, "{path}");
            assert_eq!(existing(path).unwrap_err().status, StatusCode::NOT_FOUND);
            assert_eq!(writable(path).unwrap_err().status, StatusCode::BAD_REQUEST);
        }
        assert_eq!(place("a\0b").unwrap_err().status, StatusCode::BAD_REQUEST);
    }

    proptest! {
        #[test]
        fn what_is_inside_stays_inside(path in "(\\PC|/|\\.){0,60}") {
            if let Ok(Place::Inside(inside)) = place(&path) {
                let is_in = [WORKSPACE, TEMPORARY].iter().any(|top| {
                    let rest = inside.as_str().strip_prefix(top);
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                });
                prop_assert!(is_in);
                prop_assert!(inside.as_str().split('/').all(|name| name != ".." && name != "."));
                prop_assert_eq!(place(&inside.absolute()).unwrap(), Place::Inside(inside));
            }
        }
    }
}
