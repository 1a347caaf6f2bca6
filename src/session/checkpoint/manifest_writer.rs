//! Lays out a session: its chunks, and the manifest that names them.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use belljar_files::{Files, Kind, Node, OpenOn};
use belljar_memory::HOST_PAGE;
use rayon::prelude::*;
use serde::Serialize;

use super::chunk_index::{ChunkIndex, Document, Piece};
use super::chunker::{Content, InChunk, Pieces};
use super::contents::Frozen;
use super::format::{
    ContentsDocument, HOLE, ImageReference, Manifest, Name, NodeEntry, Settings, StateDocument,
    TOPS,
};
use super::open_files::open_files;
use super::pending::{self, WaitingDocument};
use super::trim::{Caps, Run};
use crate::sandbox::Descriptor;
use crate::session::history::HistoryEntry;
use crate::session::pending::{Pending, PendingEntry};
use crate::session::state::State;
use crate::session::timeline::Past;
use crate::util::parallel::on_all_cores;
use crate::workspace::time;

/// A chunk is rewritten if a state uses less than one in this many of its pages: otherwise a single
/// page would keep the whole chunk alive.
pub(super) const LEAST_USED: u32 = 4;

/// The layout of a session.
pub(super) struct Layout<'a> {
    pub manifest: Manifest,
    /// Contents of the manifest's chunks, in the same order.
    pub chunks: Vec<Content<'a>>,
    /// The index of the manifest's chunks.
    pub index: ChunkIndex,
}

/// Chunk numbers within one document.
#[derive(Default)]
struct Local {
    numbers: HashMap<u32, u32>,
    chunks: Vec<u32>,
}

impl Local {
    fn number(&mut self, chunk: u32) -> u32 {
        *self.numbers.entry(chunk).or_insert_with(|| {
            self.chunks.push(chunk);
            (self.chunks.len() - 1) as u32
        })
    }

    fn pieces(&mut self, pieces: &[Piece]) -> Vec<Piece> {
        let own = |(chunk, at, length): &Piece| match *chunk {
            HOLE => (HOLE, *at, *length),
            chunk => (self.number(chunk), *at, *length),
        };
        pieces.iter().map(own).collect()
    }

    fn names(&self, names: &[Name]) -> Vec<Name> {
        self.chunks.iter().map(|chunk| names[*chunk as usize]).collect()
    }
}

/// The contents of a state's directories, with files assigned to chunks.
struct ContentsDraft<'a> {
    contents: &'a Arc<Files>,
    nodes: Vec<(String, NodeEntry)>,
    numbers: Vec<u64>,
    files: Vec<Vec<Piece>>,
    listings: Vec<(String, Vec<u64>, u64)>,
}

/// A state, with pages and files assigned to chunks.
struct StateDraft<'a> {
    state: &'a Arc<State>,
    stretches: Vec<InChunk>,
    nameless: Vec<Vec<Piece>>,
    nameless_numbers: Vec<u64>,
    /// Open files, each with the index of its content if it is nameless.
    open: Vec<(Descriptor, Option<usize>)>,
}

/// The waiting run: the chunks of its document (`chunks`), and all of its chunks (`parts`).
#[derive(Default)]
struct Waiting {
    chunks: Vec<u32>,
    parts: Vec<u32>,
}

/// A layout under construction.
struct Draft<'a> {
    pieces: Pieces<'a>,
    contents: Vec<ContentsDraft<'a>>,
    states: Vec<StateDraft<'a>>,
}

impl<'a> Layout<'a> {
    /// Lays out a session, reusing the chunks in `index`. If the history exceeds the limits of the
    /// format, its oldest runs are dropped.
    pub(super) fn of(frozen: &'a Frozen, index: ChunkIndex) -> io::Result<Self> {
        Self::within(&Caps::FORMAT, frozen, index)
    }

    /// Lays out a session within given limits instead of those of the format.
    pub(super) fn within(caps: &Caps, frozen: &'a Frozen, index: ChunkIndex) -> io::Result<Self> {
        let Past {
            origin,
            state: current,
            history,
        } = &frozen.past;
        let always = [current, origin.here().ok_or_else(lost)?];
        let runs: Vec<(&HistoryEntry, &Arc<State>)> = history
            .entries()
            .map(|entry| Ok((&entry.record, entry.state.here().ok_or_else(lost)?)))
            .collect::<io::Result<_>>()?;
        let runs = caps.newest(always, &runs);

        let known_chunks = index.chunks.len();
        let mut draft = Draft {
            pieces: Pieces::of(index),
            contents: Vec::new(),
            states: Vec::new(),
        };
        draft.drop_thin(current);
        for state in always.into_iter().chain(runs.iter().map(|(_, state)| *state)) {
            draft.state(state)?;
        }
        let inputs = frozen.pending.as_ref().map(|pending| draft.inputs(pending));
        let mut names = name(&draft.pieces.chunks)?;
        draft.document_contents(&mut names)?;
        draft.document_states(&mut names)?;
        let runs = draft.newest(always, runs, caps.documents)?;
        let waiting = frozen.pending.as_ref().zip(inputs);
        let waiting = waiting
            .map(|(pending, inputs)| draft.document_waiting(pending, &inputs, &mut names))
            .transpose()?
            .unwrap_or_default();

        let mut states: Vec<&Arc<State>> = Vec::new();
        let mut numbers: HashMap<usize, usize> = HashMap::new();
        let mut number = |state: &'a Arc<State>| {
            *numbers.entry(Arc::as_ptr(state).addr()).or_insert_with(|| {
                states.push(state);
                states.len() - 1
            })
        };
        let [current, origin] = always.map(&mut number);
        let history = runs.iter().map(|(record, state)| ((*record).clone(), number(state)));
        let history: Vec<_> = history.collect();
        let documents: Vec<&Document> = states
            .iter()
            .map(|state| draft.pieces.index.state(state).ok_or_else(lost))
            .collect::<io::Result<_>>()?;

        let used = documents.iter().flat_map(|d| d.parts.iter().copied().chain([d.chunk]));
        let used: BTreeSet<u32> = used.chain(waiting.parts.iter().copied()).collect();
        // Chunks with the name of a known chunk are not written again.
        let mut known: HashMap<Name, u32> = HashMap::new();
        for (number, name) in names[..known_chunks].iter().enumerate() {
            known.entry(*name).or_insert(number as u32);
        }
        let mut listed: HashMap<Name, u32> = HashMap::new();
        let mut places: HashMap<u32, u32> = HashMap::new();
        let (mut chunks, mut order) = (Vec::new(), Vec::new());
        for chunk in used {
            let own = names[chunk as usize];
            let place = *listed.entry(own).or_insert_with(|| {
                chunks.push((own, draft.pieces.chunks[chunk as usize].1));
                order.push(known.get(&own).copied().unwrap_or(chunk));
                (chunks.len() - 1) as u32
            });
            places.insert(chunk, place);
        }
        let manifest = Manifest {
            written_by: format!("belljar {}", env!("CARGO_PKG_VERSION")),
            session: settings(frozen),
            carried: chunks.len(),
            states: documents.iter().map(|document| names[document.chunk as usize]).collect(),
            chunks,
            origin,
            current,
            history,
            waiting: waiting.chunks.iter().map(|chunk| names[*chunk as usize]).collect(),
        };
        if !manifest.session.is_in_bounds(manifest.states.len(), manifest.history.len()) {
            return Err(too_large());
        }
        let Pieces { chunks, index, .. } = draft.pieces;
        let index = index.renumbered(&states, &manifest.chunks, &places);
        let mut contents: Vec<Option<Content<'a>>> =
            chunks.into_iter().map(|(content, _)| Some(content)).collect();
        let taken = order.iter().map(|chunk| contents[*chunk as usize].take().ok_or_else(lost));
        Ok(Self {
            manifest,
            chunks: taken.collect::<io::Result<_>>()?,
            index,
        })
    }
}

impl<'a> Draft<'a> {
    /// Forgets known chunks of which a new state uses little.
    fn drop_thin(&mut self, state: &Arc<State>) {
        let index = &mut self.pieces.index;
        if index.places.is_empty() || index.state(state).is_some() {
            return;
        }
        let mut used: HashMap<u32, u32> = HashMap::new();
        for stretch in state.kept.pages.stretches() {
            let (start, end) = (stretch.number(), stretch.number() + stretch.count as u64);
            let first = index.places.range(..=start).next_back().map_or(start, |(first, _)| *first);
            for (at, there) in index.places.range(first..end) {
                let stop = (at + u64::from(there.count)).min(end);
                *used.entry(there.chunk).or_default() += stop.saturating_sub(start.max(*at)) as u32;
            }
        }
        let chunks = &self.pieces.chunks;
        let is_thin = |chunk: u32| {
            let pages = chunks[chunk as usize].1 / HOST_PAGE as u32;
            used.get(&chunk).copied().unwrap_or(0).saturating_mul(LEAST_USED) < pages
        };
        let placed: BTreeSet<u32> = index.places.values().map(|there| there.chunk).collect();
        let thin: BTreeSet<u32> = placed.into_iter().filter(|chunk| is_thin(*chunk)).collect();
        index.places.retain(|_, there| !thin.contains(&there.chunk));
    }

    fn state(&mut self, state: &'a Arc<State>) -> io::Result<()> {
        if self.pieces.index.state(state).is_some() {
            return Ok(());
        }
        let stretches = self.pieces.pages(&state.kept.pages);
        let (mut nameless, mut numbers) = (Vec::new(), HashMap::new());
        let (mut nameless_numbers, mut open) = (Vec::new(), Vec::new());
        for (descriptor, file) in open_files(state) {
            let number = file.map(|(node, content)| {
                *numbers.entry(node).or_insert_with(|| {
                    nameless.push(self.pieces.file(&content));
                    nameless_numbers.push(node.number());
                    nameless.len() - 1
                })
            });
            open.push((descriptor, number));
        }
        self.contents(&state.files)?;
        self.states.push(StateDraft {
            state,
            stretches,
            nameless,
            nameless_numbers,
            open,
        });
        Ok(())
    }

    fn contents(&mut self, contents: &'a Arc<Files>) -> io::Result<()> {
        let drafted = self.contents.iter().any(|draft| Arc::ptr_eq(draft.contents, contents));
        if drafted || self.pieces.index.contents(contents).is_some() {
            return Ok(());
        }
        let (mut ordinals, mut files, mut nodes) = (HashMap::new(), Vec::new(), Vec::new());
        let mut numbers = Vec::new();
        for top in TOPS {
            let mut walk = contents.walk(contents.find(top)?);
            for found in walk.by_ref() {
                let node = match found.kind {
                    Kind::Directory => NodeEntry::Directory,
                    Kind::Symlink => match contents.target(found.node) {
                        Some(target) => NodeEntry::Link(target.to_owned()),
                        None => continue,
                    },
                    _ => {
                        let Some(content) = contents.content(found.node) else {
                            continue;
                        };
                        let file = *ordinals.entry(found.node).or_insert_with(|| {
                            files.push(self.pieces.file(content));
                            files.len() - 1
                        });
                        let modified = contents.stat(found.node).map_or(0, |stat| stat.mtime);
                        NodeEntry::File {
                            file,
                            modified: time(modified)
                                .duration_since(SystemTime::UNIX_EPOCH)
                                .unwrap_or(Duration::ZERO),
                        }
                    }
                };
                nodes.push((format!("{top}/{}", found.path), node));
                numbers.push(found.node.number());
            }
            if walk.skipped() > 0 {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidFilename,
                    "a path in it has more than 4,095 bytes",
                ));
            }
        }
        self.pieces.close_pack();
        self.contents.push(ContentsDraft {
            contents,
            nodes,
            numbers,
            files,
            listings: listings(contents),
        });
        Ok(())
    }

    /// Puts the inputs of a waiting run into chunks.
    fn inputs(&mut self, pending: &'a Pending) -> Vec<Vec<Piece>> {
        let input = |bytes: &'a [u8]| {
            let part = |part: &'a [u8]| {
                let length = part.len() as u32;
                (self.pieces.add(Content::Input(part), length), 0, length)
            };
            pending::parts(bytes).map(part).collect()
        };
        pending.inputs().map(input).collect()
    }

    /// Returns the newest runs whose documents, plus those of the states in `always`, have at most
    /// `max` bytes.
    fn newest<'r>(
        &self,
        always: [&Arc<State>; 2],
        runs: &'r [Run<'a>],
        max: u64,
    ) -> io::Result<&'r [Run<'a>]> {
        let mut counted = BTreeSet::new();
        let mut total = 0;
        let mut add = |state: &Arc<State>| {
            let index = &self.pieces.index;
            let own = index.state(state).ok_or_else(lost)?.chunk;
            let contents = index.contents(&state.files).map(|document| document.chunk);
            for chunk in [own].into_iter().chain(contents) {
                if counted.insert(chunk) {
                    total += u64::from(self.pieces.chunks[chunk as usize].1);
                }
            }
            Ok::<_, io::Error>(total)
        };
        for state in always {
            add(state)?;
        }
        for (left, (_, state)) in runs.iter().enumerate().rev() {
            if add(state)? > max {
                return Ok(&runs[left + 1..]);
            }
        }
        Ok(runs)
    }

    fn document_contents(&mut self, names: &mut Vec<Name>) -> io::Result<()> {
        for draft in &self.contents {
            let mut local = Local::default();
            let pieces: Vec<Piece> =
                draft.files.iter().flat_map(|file| local.pieces(file)).collect();
            let document = ContentsDocument {
                chunks: local.names(names),
                files: draft.files.iter().map(|file| file.len() as u32).collect(),
                pieces,
                nodes: draft.nodes.clone(),
                numbers: draft.numbers.clone(),
                next_number: draft.contents.next_number(),
                listings: draft.listings.clone(),
            };
            let chunk = add(&mut self.pieces, names, &document)?;
            self.pieces.index.add_contents(draft.contents, chunk, local.chunks);
        }
        Ok(())
    }

    fn document_states(&mut self, names: &mut Vec<Name>) -> io::Result<()> {
        for draft in &self.states {
            let kept = &draft.state.kept;
            let contents = self.pieces.index.contents(&draft.state.files).ok_or_else(lost)?;
            let mut local = Local::default();
            let stretches = draft
                .stretches
                .iter()
                .map(|(page, count, chunk, first)| (*page, *count, local.number(*chunk), *first));
            let stretches = stretches.collect();
            let pieces = draft.nameless.iter().flat_map(|file| local.pieces(file)).collect();
            let document = StateDocument {
                memory: kept.memory as u64,
                stack_pointer: kept.stack_pointer,
                lived: kept.lived,
                random_blocks: kept.random_blocks,
                placed: draft.state.placed,
                chunks: local.names(names),
                stretches,
                nameless: draft.nameless.iter().map(|file| file.len() as u32).collect(),
                nameless_numbers: draft.nameless_numbers.clone(),
                pieces,
                descriptors: draft.open.clone(),
                contents: names[contents.chunk as usize],
            };
            let mut parts = local.chunks;
            parts.extend(contents.parts.iter().copied().chain([contents.chunk]));
            let chunk = add(&mut self.pieces, names, &document)?;
            self.pieces.index.add_state(draft.state, chunk, parts);
        }
        Ok(())
    }

    /// Adds the document of the waiting run, whose inputs are in chunks.
    fn document_waiting(
        &mut self,
        pending: &Pending,
        inputs: &[Vec<Piece>],
        names: &mut Vec<Name>,
    ) -> io::Result<Waiting> {
        let mut local = Local::default();
        let pieces = inputs.iter().flat_map(|input| local.pieces(input)).collect();
        let document = WaitingDocument {
            chunks: local.names(names),
            inputs: inputs.iter().map(|input| input.len() as u32).collect(),
            pieces,
            run: PendingEntry::of(pending),
        };
        let document = serde_json::to_vec(&document)?;
        let mut chunks = Vec::new();
        for part in pending::parts(&document) {
            names.push(Name::of(part));
            chunks.push(self.pieces.add(Content::Document(part.to_vec()), part.len() as u32));
        }
        let parts = local.chunks.into_iter().chain(chunks.iter().copied()).collect();
        Ok(Waiting { chunks, parts })
    }
}

/// Names the chunks that are not documents.
fn name(chunks: &[(Content<'_>, u32)]) -> io::Result<Vec<Name>> {
    on_all_cores(|| {
        let names = chunks.par_iter().map_init(Vec::new, |buffer, (content, _)| match content {
            Content::Known(name) => Ok(*name),
            _ => content.read(buffer).map(|()| Name::of(buffer)),
        });
        names.collect()
    })
}

/// Adds a document and its name.
fn add(
    pieces: &mut Pieces<'_>,
    names: &mut Vec<Name>,
    document: &impl Serialize,
) -> io::Result<u32> {
    let bytes = serde_json::to_vec(document)?;
    let length = u32::try_from(bytes.len()).map_err(|_| too_large())?;
    names.push(Name::of(&bytes));
    Ok(pieces.add(Content::Document(bytes), length))
}

fn settings(frozen: &Frozen) -> Settings {
    let fixed = &frozen.fixed;
    Settings {
        image: ImageReference {
            name: frozen.image.manifest.name.clone(),
            memory: frozen.image.identity.clone(),
        },
        mounts: fixed.mounts.iter().map(|mount| mount.guest.clone()).collect(),
        places: fixed.places.clone(),
        bounds: fixed.bounds,
        policy: fixed.policy.clone(),
        deterministic: fixed.deterministic.clone(),
        limits: fixed.limits,
        history_bounds: fixed.history,
        execution: frozen.execution,
        fuel: frozen.fuel,
        age: frozen.times.age,
        idle: frozen.times.idle,
    }
}

pub(super) fn too_large() -> io::Error {
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        "it has too many files or too long a history for one checkpoint",
    )
}

fn lost() -> io::Error {
    io::Error::other("a part of it was not laid out")
}

/// Cookies of the names in open directories from which names were removed. With new cookies a
/// listing under way would end too early.
fn listings(files: &Files) -> Vec<(String, Vec<u64>, u64)> {
    let open: Vec<Node> = files
        .open_files()
        .filter_map(|(_, open)| match open.on {
            OpenOn::Node(node) if !open.given => Some(node),
            _ => None,
        })
        .filter(|node| files.labels(*node).is_some())
        .collect();
    if open.is_empty() {
        return Vec::new();
    }
    let listed = files.paths_of(open).into_iter().filter_map(|(node, path)| {
        let (labels, next) = files.labels(node)?;
        Some((path.strip_prefix('/')?.to_owned(), labels, next))
    });
    let mut listed: Vec<_> = listed.collect();
    listed.sort_unstable();
    listed
}
