//! Contents of files: sparse lists of blocks, shared by all states in which a file is the same.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::OnceLock;

use crate::block::{BLOCK, Block};
use crate::errno::Errno;
use crate::map::{Map, WeakMap};
use crate::pool::Pool;

/// Bytes that a file may have: offsets are signed where the guest counts them.
pub const MAX_LEN: u64 = i64::MAX as u64;

const SIZE: u64 = BLOCK as u64;

/// The bytes of a file. A clone is a handle that shares them, until one of the two is changed.
#[derive(Clone, Debug, Default)]
pub struct Content {
    len: u64,
    /// By offset over [`BLOCK`]; bytes that no block has are zero.
    blocks: Map<Block>,
    hash: OnceLock<blake3::Hash>,
}

impl Content {
    /// How many bytes it has, holes included.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads bytes from `at` on, and tells how many: fewer than asked for only at the end.
    ///
    /// # Errors
    ///
    /// [`Errno::Io`] when the spool cannot be read.
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let count = self.len.saturating_sub(at).min(into.len() as u64) as usize;
        let mut done = 0;
        while done < count {
            let from = at + done as u64;
            let inside = (from % SIZE) as usize;
            let part = (BLOCK - inside).min(count - done);
            let target = &mut into[done..done + part];
            let read = match self.blocks.get(from / SIZE) {
                Some(block) => block.read_at(inside, target)?,
                None => 0,
            };
            target[read..].fill(0);
            done += part;
        }
        Ok(count)
    }

    /// Writes bytes at `at`, with a hole before them if that is past the end, and tells how many were
    /// written: fewer than there are only when there was no room for more.
    ///
    /// # Errors
    ///
    /// [`Errno::Nospc`] when there is no room for one, [`Errno::Fbig`] past the largest file.
    pub fn write_at(&mut self, pool: &Pool, at: u64, bytes: &[u8]) -> Result<usize, Errno> {
        if at.checked_add(bytes.len() as u64).is_none_or(|end| end > MAX_LEN) {
            return Err(Errno::Fbig);
        }
        let mut done = 0;
        while done < bytes.len() {
            let to = at + done as u64;
            let inside = (to % SIZE) as usize;
            let part = (BLOCK - inside).min(bytes.len() - done);
            if let Err(errno) = self.write_part(pool, to / SIZE, inside, &bytes[done..done + part])
            {
                if done == 0 {
                    return Err(errno);
                }
                break;
            }
            done += part;
        }
        if done > 0 {
            self.len = self.len.max(at + done as u64);
            self.hash.take();
        }
        Ok(done)
    }

    fn write_part(
        &mut self,
        pool: &Pool,
        index: u64,
        inside: usize,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        if let Some(block) = self.blocks.get_mut(index) {
            return block.write(inside, bytes);
        }
        // A write after a full block is likely to fill the next block, which then never has to move.
        let before = index.checked_sub(1).and_then(|before| self.blocks.get(before));
        let continues = inside == 0 && before.is_some_and(|block| block.len() == BLOCK);
        let room = if continues { BLOCK } else { bytes.len() };
        let mut block = Block::with_room(pool, room, &[])?;
        block.write(inside, bytes)?;
        self.blocks.insert(index, block);
        Ok(())
    }

    /// Cuts the content off, or makes it longer by a hole.
    ///
    /// # Errors
    ///
    /// [`Errno::Fbig`] past the largest file, [`Errno::Nospc`] when a block is cut that others have and
    /// there is no room for its part.
    pub fn set_len(&mut self, len: u64) -> Result<(), Errno> {
        if len > MAX_LEN {
            return Err(Errno::Fbig);
        }
        if len < self.len {
            // The part of a block first: it can fail.
            let inside = (len % SIZE) as usize;
            if inside > 0
                && let Some(block) = self.blocks.get(len / SIZE)
                && block.len() > inside
                && let Some(block) = self.blocks.get_mut(len / SIZE)
            {
                block.truncate(inside)?;
            }
            if len == 0 {
                self.blocks = Map::default();
            } else {
                self.blocks.truncate(len.div_ceil(SIZE));
            }
        }
        if len != self.len {
            self.len = len;
            self.hash.take();
        }
        Ok(())
    }

    /// The hash of all its bytes, holes as zeros. It is kept with this handle.
    ///
    /// # Errors
    ///
    /// [`Errno::Io`] when the spool cannot be read.
    pub fn hash(&self) -> Result<blake3::Hash, Errno> {
        if let Some(hash) = self.hash.get() {
            return Ok(*hash);
        }
        let mut hasher = blake3::Hasher::new();
        let mut part = vec![0; BLOCK.min(self.len as usize)];
        let mut at = 0;
        loop {
            match self.read_at(at, &mut part)? {
                0 => break,
                read => {
                    hasher.update(&part[..read]);
                    at += read as u64;
                }
            }
        }
        Ok(*self.hash.get_or_init(|| hasher.finalize()))
    }

    /// The blocks with the offsets of their first bytes, in order. What is in none is zero, and so is what
    /// follows on a block that is shorter than 64 KiB up to the next one or the end.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, &Block)> {
        self.blocks.iter().map(|(index, block)| (index * SIZE, block))
    }

    /// A content of `len` bytes made of blocks by their offsets, which are multiples of [`BLOCK`].
    ///
    /// # Errors
    ///
    /// [`Errno::Inval`] for an offset that is not, or a block past the end.
    pub fn from_blocks(
        len: u64,
        blocks: impl IntoIterator<Item = (u64, Block)>,
    ) -> Result<Self, Errno> {
        let mut content = Self::default();
        for (offset, block) in blocks {
            let end = offset.checked_add(block.len() as u64).ok_or(Errno::Inval)?;
            if offset % SIZE != 0 || end > len || len > MAX_LEN {
                return Err(Errno::Inval);
            }
            content.push_block(offset, block);
        }
        content.len = len;
        Ok(content)
    }

    /// Puts a block at an offset that is a multiple of [`BLOCK`].
    pub(crate) fn push_block(&mut self, offset: u64, block: Block) {
        self.len = self.len.max(offset + block.len() as u64);
        self.blocks.insert(offset / SIZE, block);
        self.hash.take();
    }

    /// Whether both are the same bytes as far as that is known at once: `false` does not say that they
    /// differ.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.len == other.len && self.blocks.is_same(&other.blocks)
    }

    /// A number that clones have as well until they are changed, and with this length no other content while
    /// there is one; 0 without blocks.
    #[must_use]
    pub fn id(&self) -> usize {
        self.blocks.id()
    }

    /// A handle that does not keep its blocks.
    #[must_use]
    pub fn downgrade(&self) -> WeakContent {
        WeakContent {
            len: self.len,
            blocks: self.blocks.downgrade(),
        }
    }

    /// Bytes that the blocks take which `other` does not share in the same place.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> u64 {
        let mut sum = 0;
        self.blocks.beyond(&other.blocks, &mut |_, block, theirs| {
            if theirs.is_none_or(|theirs| theirs.id() != block.id()) {
                sum += block.taken() as u64;
            }
        });
        sum
    }

    /// Reads it from its beginning.
    #[must_use]
    pub fn reader(&self) -> ContentReader {
        ContentReader {
            content: self.clone(),
            at: 0,
        }
    }
}

/// A handle on a content that does not keep its blocks.
#[derive(Clone, Debug)]
pub struct WeakContent {
    len: u64,
    blocks: WeakMap<Block>,
}

impl WeakContent {
    /// The content, if somebody keeps it.
    #[must_use]
    pub fn upgrade(&self) -> Option<Content> {
        Some(Content {
            len: self.len,
            blocks: self.blocks.upgrade()?,
            hash: OnceLock::new(),
        })
    }
}

/// Reads a content as it was when the reader was made.
#[derive(Clone, Debug)]
pub struct ContentReader {
    content: Content,
    at: u64,
}

impl ContentReader {
    /// Reads bytes from `at` on, wherever reading has come to, and tells how many.
    ///
    /// # Errors
    ///
    /// [`Errno::Io`] when the spool cannot be read.
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, Errno> {
        self.content.read_at(at, into)
    }
}

impl Read for ContentReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read_at(self.at, into)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for ContentReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.content.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
