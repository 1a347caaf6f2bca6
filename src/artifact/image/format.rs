//! The image file: a header, a manifest, and memory at an offset from which it can be mapped.
//! `docs/internals/images.md` specifies it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ImageError;
use crate::artifact::PAGE;
use crate::limits::MAX_IMAGE_MANIFEST;

const MAGIC: &[u8; 8] = b"belljar\x1a";
/// Increased by every change that an older program would misread.
pub(super) const VERSION: u32 = 1;
/// Version of images with extensions.
const VERSION_WITH_EXTENSIONS: u32 = 2;
/// Magic, version, manifest length, memory offset, memory length, two hashes.
const HEADER: usize = 8 + 4 + 4 + 8 + 8 + 32 + 32;
/// Maximum size of a 32-bit memory.
const MAX_MEMORY: u64 = 1 << 32;
/// Block size of the sparse memory; it divides a page.
const BLOCK: usize = 4096;
const BLOCK_STEP: i64 = 4096;

/// Description of an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Name of the image.
    pub name: String,
    /// The image that it is based on.
    pub base: Option<String>,
    /// Description in one sentence.
    pub description: String,
    /// Imported modules, by the names that a program would import.
    pub imports: Vec<String>,
    /// Additional packages, as `name==version`.
    pub packages: Vec<String>,
    /// Name of the packages in the cache, if they are in one file.
    #[serde(rename = "package_dir")]
    pub package_file: Option<String>,
    /// SHA-256 of the module and the library that it needs.
    pub artifact: String,
    /// SHA-256 of the recipe and the runner that it was built with.
    pub recipe: String,
    /// The stack pointer at rest.
    pub stack_pointer: i32,
    /// Addresses for a soft interrupt; missing only in the base of the built-in images.
    pub interrupt: Option<InterruptAddresses>,
    /// Memory reserved in the image, so that a run need not request it from the guest; missing if
    /// `interrupt` is.
    pub reserved: Option<Reserved>,
    /// Native extensions, in the order in which they were linked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<Extension>,
    /// Packages of the library whose place packages of the image take.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<Replaced>,
}

/// A package of the library that the image hides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replaced {
    /// Its normalized name.
    pub package: String,
    /// Its top-level modules.
    pub modules: Vec<String>,
}

/// A native extension, whose data is in the memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extension {
    /// Name of the Python module.
    pub module: String,
    /// SHA-256 of the file in the package.
    pub file: String,
    /// SHA-256 of the linked module, whose addresses and slots are final.
    pub linked: String,
    /// Address of its data.
    pub memory: u32,
    /// Its first table slot, and one more than its last.
    pub slots: (u32, u32),
}

/// Memory that the guest's allocator reserved while the image was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reserved {
    /// Address of the source of a run's turn.
    pub run_source: u32,
    /// Address for the answer to a run's first frame, which the guest then frees.
    pub answer: u32,
    /// Size of the memory for the answer, in bytes.
    pub answer_bytes: u32,
}

/// Guest addresses of the three words that make CPython run its SIGINT handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InterruptAddresses {
    /// `handlers[SIGINT].tripped`, set to 1.
    pub tripped: u32,
    /// `is_tripped`, set to 1.
    pub is_tripped: u32,
    /// The interpreter's `eval_breaker`, bit 1 of which is set.
    pub eval_breaker: u32,
}

/// The verified head of an image file.
pub(super) struct Head {
    pub manifest: Manifest,
    pub memory_offset: u64,
    pub memory_length: u64,
    pub memory_sha256: [u8; 32],
}

/// Writes an image; zero blocks become holes.
pub(super) fn write(file: &mut File, manifest: &Manifest, memory: &[u8]) -> io::Result<()> {
    let version = match manifest.extensions[..] {
        [] => VERSION,
        _ => VERSION_WITH_EXTENSIONS,
    };
    let manifest = serde_json::to_vec_pretty(manifest)?;
    if manifest.len() > MAX_IMAGE_MANIFEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "its manifest is too long"));
    }
    let offset = (HEADER + manifest.len()).next_multiple_of(PAGE) as u64;
    let mut head = Vec::with_capacity(HEADER + manifest.len());
    head.extend_from_slice(MAGIC);
    head.extend_from_slice(&version.to_le_bytes());
    head.extend_from_slice(&u32::try_from(manifest.len()).unwrap_or(u32::MAX).to_le_bytes());
    head.extend_from_slice(&offset.to_le_bytes());
    head.extend_from_slice(&(memory.len() as u64).to_le_bytes());
    head.extend_from_slice(&Sha256::digest(memory));
    head.extend_from_slice(&head_hash(&head, &manifest));
    head.extend_from_slice(&manifest);
    belljar_memory::reserve(file, offset + memory.len() as u64)?;
    file.write_all(&head)?;

    let mut zeros = 0;
    file.seek(SeekFrom::Start(offset))?;
    for block in memory.chunks(BLOCK) {
        if block.iter().all(|&b| b == 0) {
            zeros += BLOCK_STEP;
            continue;
        }
        if zeros > 0 {
            file.seek(SeekFrom::Current(zeros))?;
            zeros = 0;
        }
        file.write_all(block)?;
    }
    file.set_len(offset + memory.len() as u64)
}

/// Reads and verifies an image's head. Every field is untrusted until its hash matches.
pub(super) fn read_head(mut file: impl Read, size: u64, path: &Path) -> Result<Head, ImageError> {
    let bad = |reason| ImageError::Format {
        path: path.to_owned(),
        reason,
    };
    let short = |_| bad("it is too short");
    let mut head = [0; HEADER];
    file.read_exact(&mut head).map_err(short)?;
    let mut fields = head.as_slice();
    if take::<8>(&mut fields) != *MAGIC {
        return Err(bad("it does not begin like an image"));
    }
    let version = u32::from_le_bytes(take(&mut fields));
    if ![VERSION, VERSION_WITH_EXTENSIONS].contains(&version) {
        return Err(bad("it was written by another version of belljar"));
    }
    let manifest_length = u32::from_le_bytes(take(&mut fields)) as usize;
    let memory_offset = u64::from_le_bytes(take(&mut fields));
    let memory_length = u64::from_le_bytes(take(&mut fields));
    let memory_sha256 = take(&mut fields);
    let expected: [u8; 32] = take(&mut fields);
    if manifest_length > MAX_IMAGE_MANIFEST {
        return Err(bad("its manifest is too long"));
    }
    let mut manifest = vec![0; manifest_length];
    file.read_exact(&mut manifest).map_err(short)?;
    if head_hash(&head[..HEADER - 32], &manifest) != expected {
        return Err(bad("its header does not match its checksum"));
    }
    let page = PAGE as u64;
    if memory_offset % page != 0
        || memory_offset < (HEADER + manifest_length) as u64
        || memory_length == 0
        || memory_length % page != 0
        || memory_length > MAX_MEMORY
        || memory_offset.checked_add(memory_length) != Some(size)
    {
        return Err(bad("its memory is not where its header says"));
    }
    let manifest =
        serde_json::from_slice(&manifest).map_err(|_| bad("its manifest is not valid"))?;
    Ok(Head {
        manifest,
        memory_offset,
        memory_length,
        memory_sha256,
    })
}

/// Verifies the memory against its checksum.
pub(super) fn check_memory(mut file: File, head: &Head, path: &Path) -> Result<(), ImageError> {
    let failed = |source| ImageError::Io {
        action: "read",
        path: path.to_owned(),
        source,
    };
    file.seek(SeekFrom::Start(head.memory_offset)).map_err(failed)?;
    let mut hasher = Sha256::new();
    let mut rest = file.take(head.memory_length);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match rest.read(&mut buffer).map_err(failed)? {
            0 => break,
            n => hasher.update(&buffer[..n]),
        }
    }
    if <[u8; 32]>::from(hasher.finalize()) == head.memory_sha256 {
        return Ok(());
    }
    Err(ImageError::Format {
        path: path.to_owned(),
        reason: "its memory does not match its checksum",
    })
}

fn head_hash(fields: &[u8], manifest: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(fields).chain_update(manifest).finalize().into()
}

/// Takes the next fixed-size field from a header that is known to be long enough.
fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (field, after) = rest.split_first_chunk().expect("the header holds all its fields");
    *rest = after;
    *field
}
