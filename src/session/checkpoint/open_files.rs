//! Open files of an interpreter in a checkpoint, identified by path.

use std::collections::HashMap;

use belljar_files::{Content, FdFlags, Files, Kind, Node, OpenFile, OpenOn, rights};

use super::problem::Problem;
use crate::sandbox::{Descriptor, Kept, TEMPORARY_PATH, WORKSPACE_PATH, is_of_host};
use crate::session::state::State;

/// The open files that a document lists.
pub(super) type Listed = Vec<(Descriptor, Option<Nameless>)>;

/// A nameless file in a document.
pub(super) struct Nameless {
    /// Index of the file.
    pub index: usize,
    /// The guest's number of the file.
    pub number: Option<u64>,
    pub content: Content,
}

/// Lists all open files of a state; for nameless files, also the node and its content.
pub(super) fn open_files(state: &State) -> Vec<(Descriptor, Option<(Node, Content)>)> {
    let files = &*state.files;
    let nodes = files.open_files().filter_map(|(_, open)| match open.on {
        OpenOn::Node(node) if !open.given => Some(node),
        _ => None,
    });
    let paths = files.paths_of(nodes);
    let own = files.open_files().filter(|(_, open)| !open.given).filter_map(|(number, open)| {
        let OpenOn::Node(node) = open.on else {
            return None;
        };
        let is_directory = files.stat(node).is_ok_and(|stat| stat.kind == Kind::Directory);
        let path = paths.get(&node).cloned();
        let content = match path {
            Some(_) => None,
            None => files.content(node).map(|content| (node, content.clone())),
        };
        let descriptor = Descriptor {
            number: number.cast_signed(),
            path: path.unwrap_or_else(|| TEMPORARY_PATH.to_owned()),
            is_directory,
            rights: files.fd_fdstat_get(number).map_or(0, |status| status.rights),
            flags: open.flags.0,
            position: if is_directory { 0 } else { open.offset },
        };
        Some((descriptor, content))
    });
    let hosts = state.kept.hosts.iter().map(|file| (file.clone(), None));
    let mut open: Vec<_> = own.chain(hosts).collect();
    open.sort_by_key(|(descriptor, _)| descriptor.number);
    open
}

/// The guest's environment outside its own files, and the time.
pub(super) struct Elsewhere<'a> {
    /// Current time, in nanoseconds since 1970.
    pub now: u64,
    /// Paths of the mounts.
    pub mounts: &'a [String],
    /// Additional paths of the workspace.
    pub aliases: &'a [String],
}

/// Reopens the files that a document lists: in `files`, or in `kept` for host files. Each nameless
/// file is created once.
pub(super) fn reopen(
    files: &mut Files,
    kept: &mut Kept,
    listed: Listed,
    elsewhere: &Elsewhere<'_>,
) -> Result<(), Problem> {
    let mut nameless: HashMap<usize, Node> = HashMap::new();
    for (descriptor, content) in listed {
        if content.is_none() && is_of_host(&descriptor.path, elsewhere.mounts) {
            kept.hosts.push(descriptor);
            continue;
        }
        let node = match content {
            None if let Some(node) = files.find_attached(&descriptor.path) => Ok(node),
            None => files.find_through(&own_path(&descriptor.path, elsewhere.aliases)),
            Some(file) => match nameless.get(&file.index) {
                Some(node) => Ok(*node),
                None => files
                    .numbered(file.number.unwrap_or(0), |files| {
                        files.put_nameless(file.content, elsewhere.now)
                    })
                    .inspect(|node| {
                        nameless.insert(file.index, *node);
                    }),
            },
        };
        let open = |node| OpenFile {
            on: OpenOn::Node(node),
            read: descriptor.rights & rights::FD_READ != 0,
            write: descriptor.rights & rights::FD_WRITE != 0 && !descriptor.is_directory,
            flags: FdFlags(descriptor.flags),
            offset: descriptor.position,
            given: false,
        };
        let opened =
            node.and_then(|node| files.reopen(descriptor.number.cast_unsigned(), &open(node)));
        opened.map_err(|_| missing())?;
    }
    Ok(())
}

/// Converts a path under any workspace alias to its path in the workspace.
fn own_path(path: &str, aliases: &[String]) -> String {
    let inside = aliases.iter().find_map(|alias| {
        let rest = path.strip_prefix(alias.as_str())?;
        (rest.is_empty() || rest.starts_with('/')).then(|| format!("{WORKSPACE_PATH}{rest}"))
    });
    inside.unwrap_or_else(|| path.to_owned())
}

fn missing() -> Problem {
    Problem::Format("a state has an open file that is not there")
}
