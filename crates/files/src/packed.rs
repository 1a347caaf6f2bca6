//! Trees packed into one file, which is opened once and read at offsets.
//!
//! The file begins with eight magic bytes and the length of the index. The index has a line for
//! each file, sorted by path: its length in decimal, a space, its path. The contents follow in the
//! same order, uncompressed.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Write};

use crate::errno::Errno;
use crate::files::MAX_PATH;
use crate::host::check_name;
use crate::readonly::{ReadOnly, ReadOnlyEntry};
use crate::spool::Storage;
use crate::types::Kind;

const MAGIC: &[u8; 8] = b"files 1\n";
/// Bytes before the index.
const HEAD: u64 = 16;
const MAX_INDEX: u64 = 64 << 20;
/// The timestamp of all files: the start of 1980, the earliest that zip archives can store.
const MTIME: u64 = 315_532_800_000_000_000;

/// A read-only tree in one file. Reading needs no further descriptor and no path.
#[derive(Debug)]
pub struct Packed {
    file: Option<File>,
    nodes: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    name: Box<str>,
    parent: u64,
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// Nodes in the directory, sorted by name.
    Dir(Vec<u64>),
    File {
        start: u64,
        size: u64,
    },
}

impl Default for Packed {
    /// An empty tree.
    fn default() -> Self {
        let root = Item {
            name: "".into(),
            parent: 0,
            body: Body::Dir(Vec::new()),
        };
        Self {
            file: None,
            nodes: vec![root],
        }
    }
}

impl Packed {
    /// Packs files, given as contents by path, into the form that [`open`](Self::open) reads.
    ///
    /// # Errors
    ///
    /// Those of the writer, and [`io::ErrorKind::InvalidInput`] for an invalid path.
    pub fn pack(files: &BTreeMap<String, Vec<u8>>, mut to: impl Write) -> io::Result<()> {
        let mut index = String::new();
        for (path, bytes) in files {
            let mut around = path.match_indices('/').map(|(end, _)| &path[..end]);
            if path.len() > MAX_PATH
                || path.contains('\n')
                || path.split('/').any(|name| check_name(name).is_err())
                || around.any(|dir| files.contains_key(dir))
            {
                let reason = format!("no file can have the path {path:?} in it");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
            }
            index.extend([&bytes.len().to_string(), " ", path, "\n"]);
        }
        to.write_all(MAGIC)?;
        to.write_all(&(index.len() as u64).to_le_bytes())?;
        to.write_all(index.as_bytes())?;
        files.values().try_for_each(|bytes| to.write_all(bytes))
    }

    /// Opens a packed tree.
    ///
    /// # Errors
    ///
    /// Read errors, and [`io::ErrorKind::InvalidData`] for a file of another format or a truncated
    /// one.
    pub fn open(file: File) -> io::Result<Self> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let len = file.metadata()?.len();
        if len < HEAD {
            return Err(invalid());
        }
        let mut magic = [0; 8];
        Storage::read_exact_at(&file, &mut magic, 0)?;
        let mut length = [0; 8];
        Storage::read_exact_at(&file, &mut length, 8)?;
        let length = u64::from_le_bytes(length);
        if magic != *MAGIC || length > MAX_INDEX || length > len - HEAD {
            return Err(invalid());
        }
        let mut index = vec![0; length as usize];
        Storage::read_exact_at(&file, &mut index, HEAD)?;
        let index = std::str::from_utf8(&index).map_err(|_| invalid())?;
        let mut packed = Self::default();
        let mut dirs = HashMap::from([(String::new(), 0)]);
        let mut start = HEAD + length;
        for line in index.split_terminator('\n') {
            let (size, path) = line.split_once(' ').ok_or_else(invalid)?;
            let size: u64 = size.parse().map_err(|_| invalid())?;
            packed.add(&mut dirs, path, start, size).ok_or_else(invalid)?;
            start = start.checked_add(size).filter(|end| *end <= len).ok_or_else(invalid)?;
        }
        packed.file = Some(file);
        packed.sorted().ok_or_else(invalid)
    }

    /// A tree with a single file of this name.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] for an invalid name, and errors of reading the file's
    /// metadata.
    pub fn of_file(name: &str, file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        let mut packed = Self::default();
        let mut dirs = HashMap::from([(String::new(), 0)]);
        packed.add(&mut dirs, name, 0, size).ok_or(io::ErrorKind::InvalidInput)?;
        packed.file = Some(file);
        Ok(packed)
    }

    /// Adds a file and its parent directories.
    fn add(
        &mut self,
        dirs: &mut HashMap<String, u64>,
        path: &str,
        start: u64,
        size: u64,
    ) -> Option<()> {
        if path.len() > MAX_PATH {
            return None;
        }
        let (around, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut parent = 0;
        let mut end = 0;
        for part in around.split('/').filter(|_| !around.is_empty()) {
            end += part.len() + usize::from(end > 0);
            parent = if let Some(dir) = dirs.get(&around[..end]) {
                *dir
            } else {
                let made = self.push(parent, part, Body::Dir(Vec::new()))?;
                dirs.insert(around[..end].to_owned(), made);
                made
            };
        }
        self.push(parent, name, Body::File { start, size }).map(drop)
    }

    fn push(&mut self, parent: u64, name: &str, body: Body) -> Option<u64> {
        check_name(name).ok()?;
        let number = self.nodes.len() as u64;
        let Body::Dir(names) = &mut self.nodes.get_mut(parent as usize)?.body else {
            return None;
        };
        names.push(number);
        let name = name.into();
        self.nodes.push(Item { name, parent, body });
        Some(number)
    }

    /// Sorts directory listings by name, which differs from the order of paths. `None` on
    /// duplicates.
    fn sorted(mut self) -> Option<Self> {
        let names: Vec<Box<str>> = self.nodes.iter().map(|node| node.name.clone()).collect();
        for node in &mut self.nodes {
            if let Body::Dir(entries) = &mut node.body {
                entries.sort_by(|a, b| names[*a as usize].cmp(&names[*b as usize]));
                let same = |pair: &[u64]| names[pair[0] as usize] == names[pair[1] as usize];
                if entries.windows(2).any(same) {
                    return None;
                }
            }
        }
        Some(self)
    }

    fn node(&self, node: u64) -> Option<&Item> {
        self.nodes.get(usize::try_from(node).ok()?)
    }

    fn entries(&self, dir: u64) -> &[u64] {
        match self.node(dir).map(|node| &node.body) {
            Some(Body::Dir(entries)) => entries,
            _ => &[],
        }
    }
}

impl ReadOnly for Packed {
    fn stat(&self, node: u64) -> Option<ReadOnlyEntry> {
        let (kind, size) = match self.node(node)?.body {
            Body::Dir(_) => (Kind::Directory, 0),
            Body::File { size, .. } => (Kind::File, size),
        };
        Some(ReadOnlyEntry {
            kind,
            size,
            mtime: MTIME,
        })
    }

    fn lookup(&self, dir: u64, name: &str) -> Option<u64> {
        let entries = self.entries(dir);
        let name_of = |entry: &u64| self.node(*entry).map_or("", |node| &node.name);
        let at = entries.binary_search_by(|entry| name_of(entry).cmp(name)).ok()?;
        entries.get(at).copied()
    }

    fn parent(&self, node: u64) -> u64 {
        self.node(node).map_or(0, |node| node.parent)
    }

    fn name(&self, node: u64) -> Option<&str> {
        self.node(node).map(|node| &*node.name)
    }

    fn entry(&self, dir: u64, index: u64) -> Option<(&str, u64)> {
        let number = *self.entries(dir).get(usize::try_from(index).ok()?)?;
        Some((&self.node(number)?.name, number))
    }

    fn read_at(&self, node: u64, at: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let (Some(Body::File { start, size }), Some(file)) =
            (self.node(node).map(|node| &node.body), &self.file)
        else {
            return Err(Errno::Io);
        };
        let count = size.saturating_sub(at).min(into.len() as u64) as usize;
        if count == 0 {
            return Ok(0);
        }
        Storage::read_exact_at(file, &mut into[..count], start + at).map_err(|_| Errno::Io)?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek;
    use std::sync::Arc;

    use super::*;
    use crate::{Files, Limits, OpenFile, OpenOn, Pool};

    fn packed(files: &[(&str, &str)]) -> File {
        let files = files.iter().map(|(path, text)| ((*path).into(), text.as_bytes().to_vec()));
        let mut to = tempfile::tempfile().unwrap();
        Packed::pack(&files.collect(), &mut to).unwrap();
        to
    }

    const FILES: [(&str, &str); 4] = [("a-b", "1"), ("a/x/y", "two"), ("a/z", ""), ("b", "three")];

    struct Nothing;
    impl crate::World for Nothing {
        fn now(&mut self) -> u64 {
            0
        }
        fn random(&mut self, _: &mut [u8]) -> bool {
            false
        }
    }

    fn listed(tree: &Packed, dir: u64) -> Vec<(&str, u64)> {
        (0..).map_while(|index| tree.entry(dir, index)).collect()
    }

    #[test]
    fn what_was_packed_is_found_listed_and_read() {
        let tree = Packed::open(packed(&FILES)).unwrap();
        let names: Vec<&str> = listed(&tree, 0).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "a-b", "b"]);
        for (path, text) in FILES {
            let found = path.split('/').try_fold(0, |dir, name| tree.lookup(dir, name)).unwrap();
            let mut bytes = [0; 9];
            let read = tree.read_at(found, 0, &mut bytes).unwrap();
            assert_eq!(&bytes[..read], text.as_bytes(), "{path}");
            assert_eq!(tree.read_at(found, u64::MAX, &mut bytes), Ok(0));
            let dir = tree.parent(found);
            assert!(listed(&tree, dir).contains(&(tree.name(found).unwrap(), found)), "{path}");
        }
        assert_eq!(tree.lookup(0, "c"), None);
        assert!(listed(&Packed::open(packed(&[])).unwrap(), 0).is_empty());
    }

    #[test]
    fn what_is_cut_short_or_something_else_is_refused() {
        let file = packed(&FILES);
        let whole = file.metadata().unwrap().len();
        for len in (0..whole).rev() {
            file.set_len(len).unwrap();
            assert!(Packed::open(file.try_clone().unwrap()).is_err(), "{len} bytes");
        }
        for path in ["", "/a", "a//b", "../a", "a/.", "a\nb"] {
            let files = BTreeMap::from([(path.to_owned(), vec![1])]);
            assert!(Packed::pack(&files, io::sink()).is_err(), "{path:?}");
            let mut file = packed(&[("aaaa", "")]);
            file.seek(io::SeekFrom::Start(HEAD + 2)).unwrap();
            file.write_all(format!("{path:/<4}").as_bytes()).unwrap();
            assert!(Packed::open(file).is_err(), "{path:?}");
        }
    }

    #[test]
    fn a_path_is_as_long_as_a_guest_can_name_and_no_file_is_a_directory() {
        let path = |len: usize| format!("{}{}", "a/".repeat(len / 2 - 1), "b".repeat(2 + len % 2));
        let pack = |paths: &[String]| {
            let files = paths.iter().map(|path| (path.clone(), Vec::new())).collect();
            let mut to = Vec::new();
            Packed::pack(&files, &mut to).map(|()| to)
        };
        assert!(pack(&[path(MAX_PATH)]).is_ok());
        assert!(pack(&[path(MAX_PATH + 1)]).is_err());
        assert!(pack(&["a".into(), "a-b".into(), "a/b/c".into()]).is_err());

        // An index from a writer that checks nothing.
        let opened = |lines: &str| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(MAGIC).unwrap();
            file.write_all(&(lines.len() as u64).to_le_bytes()).unwrap();
            file.write_all(lines.as_bytes()).unwrap();
            Packed::open(file)
        };
        assert!(opened(&format!("0 {}\n", path(MAX_PATH))).is_ok());
        assert!(opened(&format!("0 {}\n", path(MAX_PATH + 1))).is_err());
        assert!(opened("0 a\n0 a/b\n").is_err());
        assert!(opened("0 a/b\n0 a\n").is_err());
    }

    #[test]
    fn an_attached_tree_is_opened_again_by_its_path() {
        let mut files = Files::new(&Pool::default(), Limits::NONE);
        let tree = Arc::new(Packed::open(packed(&FILES)).unwrap());
        let root = files.attach(tree, "/usr/lib").unwrap();
        files.give(root, "/usr/lib").unwrap();
        let node = files.find_attached("/usr/lib/a/x/y").unwrap();
        assert_eq!(files.paths_of([node, root])[&node], "/usr/lib/a/x/y");
        assert_eq!(files.paths_of([node, root])[&root], "/usr/lib");
        // As written by earlier versions.
        assert_eq!(files.find_attached("/usr/lib/."), Some(root));
        assert_eq!(files.find_attached("/usr/lib/a/../a/./x/y"), Some(node));
        for path in ["/usr/lib/none", "/usr/lib/b/x", "/usr/library/b", "/workspace"] {
            assert_eq!(files.find_attached(path), None, "{path}");
        }
        let open = OpenFile {
            on: OpenOn::Node(node),
            read: true,
            write: false,
            flags: crate::FdFlags(0),
            offset: 1,
            given: false,
        };
        files.reopen(5, &open).unwrap();
        let mut bytes = [0; 4];
        assert_eq!(files.clone().fd_read(5, &mut bytes, &mut Nothing), Ok(2));
        assert_eq!(&bytes[..2], b"wo");
    }
}
