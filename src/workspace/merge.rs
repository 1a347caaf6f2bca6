//! Merges the changes of one copy of a file tree into another.

use std::collections::BTreeMap;

use belljar_files::{Errno, Files, Kind, Node};

use super::{PathProblem, ROOT, TEMPORARY};

/// Applies the differences between `base` and `theirs` to `files`, in the workspace and in the
/// temporary files. If both sides changed a path, `theirs` wins; a directory that they removed
/// stays if it has other contents. After an error, `files` is partly changed.
pub(crate) fn merge(
    files: &mut Files,
    base: &Files,
    theirs: &Files,
    now: u64,
) -> Result<(), PathProblem> {
    let (before, made) = (everything(base)?, everything(theirs)?);
    // Contents are removed before their directory.
    for (path, node) in before.iter().rev().filter(|(path, _)| !made.contains_key(*path)) {
        let is_empty_only = base.stat(*node)?.kind == Kind::Directory;
        match files.remove(path, !is_empty_only, now) {
            Ok(()) | Err(Errno::Noent | Errno::Notempty | Errno::Notdir | Errno::Loop) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    for (path, node) in &made {
        let is_same = before.get(path).is_some_and(|old| is_alike((base, *old), (theirs, *node)));
        if !is_same {
            make(files, path, (theirs, *node), now)?;
        }
    }
    Ok(())
}

/// Makes `path` a copy of a node of another tree, and creates its parent directories.
fn make(
    files: &mut Files,
    path: &str,
    (theirs, node): (&Files, Node),
    now: u64,
) -> Result<(), PathProblem> {
    let stat = theirs.stat(node)?;
    let there = match files.find(path) {
        Ok(there) => Some(files.stat(there)?.kind),
        Err(Errno::Noent) => None,
        Err(errno) => return Err(errno.into()),
    };
    // A file keeps its node if possible, since it may be open. A link must be recreated.
    if there.is_some_and(|kind| kind != stat.kind || kind == Kind::Symlink) {
        files.remove(path, true, now)?;
    }
    match (theirs.content(node), theirs.target(node)) {
        (Some(content), _) => files.put_file(path, content.clone(), stat.mtime)?,
        (None, Some(target)) => files.put_link(path, target, stat.mtime)?,
        (None, None) => files.put_dir(path, stat.mtime)?,
    };
    Ok(())
}

/// Whether two nodes are equal files, links or directories, without the directories' contents.
fn is_alike((one, node): (&Files, Node), (other, their): (&Files, Node)) -> bool {
    let (Ok(stat), Ok(their_stat)) = (one.stat(node), other.stat(their)) else {
        return false;
    };
    match (one.content(node), other.content(their)) {
        (Some(own), Some(content)) => own.is_same(content) && stat.mtime == their_stat.mtime,
        (None, None) => stat.kind == their_stat.kind && one.target(node) == other.target(their),
        _ => false,
    }
}

/// Returns all entries of a session's directories, by absolute path.
fn everything(files: &Files) -> Result<BTreeMap<String, Node>, PathProblem> {
    let mut all = BTreeMap::new();
    for top in [ROOT, TEMPORARY] {
        let mut walk = files.walk(files.find(top)?);
        all.extend(walk.by_ref().map(|found| (format!("{top}/{}", found.path), found.node)));
        if walk.skipped() > 0 {
            return Err(PathProblem::TooDeep);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use belljar_files::{Limits, Pool, PoolOptions};

    use super::*;

    fn put(files: &mut Files, path: &str, text: &str) {
        let content = files.pool().clone().content(text.as_bytes()).unwrap();
        files.put_file(path, content, 1).unwrap();
    }

    fn text(files: &Files, path: &str) -> Option<String> {
        let content = files.content(files.find(path).ok()?)?;
        let mut bytes = vec![0; content.len() as usize];
        content.read_at(0, &mut bytes).unwrap();
        Some(String::from_utf8(bytes).unwrap())
    }

    /// A tree and two copies of it.
    fn trees() -> [Files; 3] {
        let pool = Pool::new(PoolOptions::default());
        let mut base = Files::new(&pool, Limits::NONE);
        for top in [ROOT, TEMPORARY] {
            base.make_dirs(top, true).unwrap();
        }
        for name in ["both", "gone", "kept", "d/f", "e/f", "turned"] {
            put(&mut base, &format!("/workspace/{name}"), "old");
        }
        [base.clone(), base.clone(), base]
    }

    #[test]
    fn both_sides_are_there_afterwards() {
        let [base, mut ours, mut theirs] = trees();
        for (files, text) in [(&mut ours, "ours"), (&mut theirs, "theirs")] {
            put(files, "/workspace/both", text);
            put(files, &format!("/workspace/{text}"), text);
        }
        put(&mut ours, "/workspace/kept", "ours");
        put(&mut ours, "/workspace/d/new", "ours");
        for gone in ["gone", "d", "e", "turned"] {
            theirs.remove(&format!("/workspace/{gone}"), true, 2).unwrap();
        }
        put(&mut theirs, "/workspace/turned/f", "theirs");
        theirs.put_link("/tmp/l", "/workspace", 2).unwrap();
        put(&mut theirs, r"/tmp/a\b", "theirs");
        put(&mut theirs, "/tmp/a:b", "theirs");
        merge(&mut ours, &base, &theirs, 3).unwrap();
        for (path, expected) in [
            ("/workspace/both", Some("theirs")),
            ("/workspace/ours", Some("ours")),
            ("/workspace/theirs", Some("theirs")),
            ("/workspace/kept", Some("ours")),
            ("/workspace/gone", None),
            ("/workspace/d/f", None),
            ("/workspace/d/new", Some("ours")),
            ("/workspace/turned/f", Some("theirs")),
            (r"/tmp/a\b", Some("theirs")),
            ("/tmp/a:b", Some("theirs")),
        ] {
            assert_eq!(text(&ours, path).as_deref(), expected, "{path}");
        }
        assert!(ours.find("/workspace/e").is_err());
        assert_eq!(ours.target(ours.find("/tmp/l").unwrap()), Some("/workspace"));
        // Equal trees cause no changes.
        let (again, version) = (ours.clone(), ours.version());
        merge(&mut ours, &again, &again, 4).unwrap();
        assert_eq!(ours.version(), version);
    }

    #[test]
    fn no_link_is_followed() {
        let [base, mut ours, mut theirs] = trees();
        ours.remove("/workspace/d", true, 2).unwrap();
        ours.put_link("/workspace/d", "/tmp", 2).unwrap();
        put(&mut theirs, "/workspace/d/f", "theirs");
        assert_eq!(merge(&mut ours, &base, &theirs, 3), Err(PathProblem::IsLink));
        assert!(ours.find("/tmp/f").is_err());
    }
}
