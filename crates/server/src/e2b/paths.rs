//! Paths as clients write them, and where they lead: into the sandbox's directory, or nowhere.

use super::fault::Fault;

/// The directory of a sandbox, as its clients and its code know it.
pub(super) const HOME: &str = "/home/user";
/// The same directory by the engine's own name.
const WORKSPACE: &str = "/workspace";

/// A path inside the sandbox's directory: relative to it, separated by `/`, without `.` and `..`; empty for
/// the directory itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Inside(String);

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Inside(Inside),
    /// Somewhere that no sandbox has.
    Outside(String),
}

impl Inside {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn absolute(&self) -> String {
        absolute(&self.0)
    }

    /// The last name of it.
    pub(super) fn name(&self) -> &str {
        name(&self.0)
    }
}

/// What a path relative to the sandbox's directory is called from outside.
pub(super) fn absolute(relative: &str) -> String {
    if relative.is_empty() {
        HOME.to_owned()
    } else {
        format!("{HOME}/{relative}")
    }
}

/// The last name of a path.
pub(super) fn name(path: &str) -> &str {
    match path.rsplit('/').next() {
        Some("") | None => "user",
        Some(name) => name,
    }
}

/// Where a path leads: an absolute one, or one from the home directory. `.` and `..` are taken by name, as no
/// link is followed anyway.
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
    let inside = [HOME, WORKSPACE].iter().find_map(|root| {
        let rest = path.strip_prefix(root)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/').to_owned())
    });
    Ok(inside.map_or(Place::Outside(path), |inside| Place::Inside(Inside(inside))))
}

/// The path of something to look at: outside there is nothing.
pub(super) fn existing(path: &str) -> Result<Inside, Fault> {
    match place(path)? {
        Place::Inside(inside) => Ok(inside),
        Place::Outside(path) => Err(Fault::not_found(format!("path '{path}' does not exist"))),
    }
}

/// The path of something to be made: outside nothing can be.
pub(super) fn writable(path: &str) -> Result<Inside, Fault> {
    match place(path)? {
        Place::Inside(inside) => Ok(inside),
        Place::Outside(path) => Err(Fault::invalid(format!(
            "path '{path}' cannot be written: files of a sandbox are in {HOME}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use proptest::prelude::*;

    use super::*;

    fn inside(path: &str) -> Option<String> {
        match place(path) {
            Ok(Place::Inside(inside)) => Some(inside.as_str().to_owned()),
            _ => None,
        }
    }

    #[test]
    fn paths_are_those_of_the_home_directory() {
        for (path, expected) in [
            ("a.txt", "a.txt"),
            ("/home/user/a.txt", "a.txt"),
            ("/workspace/a/b", "a/b"),
            ("~/a", "a"),
            ("~", ""),
            ("", ""),
            (".", ""),
            ("/home/user/", ""),
            ("//home//user//a/./b/../c", "a/c"),
            ("/etc/../home/user/x", "x"),
            ("~x", "~x"),
            ("a\\..\\b", "a\\..\\b"),
        ] {
            assert_eq!(inside(path).as_deref(), Some(expected), "{path}");
        }
    }

    #[test]
    fn nothing_leads_out() {
        for path in
            ["/", "/etc/passwd", "../../etc/passwd", "~/../x", "/home/user2/a", "/home/userx"]
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
                prop_assert!(!inside.as_str().starts_with('/'));
                prop_assert!(inside.as_str().split('/').all(|name| name != ".." && name != "."));
                prop_assert_eq!(place(&inside.absolute()).unwrap(), Place::Inside(inside));
            }
        }
    }
}
