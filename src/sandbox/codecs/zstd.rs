//! Zstandard, in Rust: the C library decompresses only the host's own files.

use std::io::Read;

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::{Broken, Step, Work};

/// Maximum window. RFC 8878 recommends that decoders support it; only the levels for very small
/// files exceed it.
const MAX_WINDOW: u64 = 8 << 20;
/// Blocks of a step. A block has at most 128 KiB, or 1 MiB of one byte repeated.
const STEP_BLOCKS: usize = 4;
/// Fuel of a block: its tables take time even if it has few bytes.
const BLOCK_FUEL: u64 = 50_000;
/// Data of one frame that is written, in bytes: a step.
const FRAME: usize = 1 << 20;

/// Reads frames that follow each other.
pub(super) struct Reader {
    decoder: FrameDecoder,
    is_open: bool,
    at: usize,
    made: usize,
}

impl Reader {
    pub(super) fn new() -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_WINDOW);
        Self {
            decoder,
            is_open: false,
            at: 0,
            made: 0,
        }
    }

    /// Reads the head of a frame.
    fn open(&mut self, rest: &mut &[u8]) -> Result<(), Broken> {
        use FrameDecoderError::ReadFrameHeaderError as Head;
        match self.decoder.init(&mut *rest) {
            Ok(()) => self.is_open = true,
            Err(Head(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                *rest = rest.get(length as usize..).ok_or(Broken)?;
            }
            Err(_) => return Err(Broken),
        }
        Ok(())
    }
}

impl Work for Reader {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Broken> {
        let mut rest = input.get(self.at..).ok_or(Broken)?;
        let mut used = BLOCK_FUEL;
        if self.is_open {
            let before = self.decoder.blocks_decoded();
            let strategy = BlockDecodingStrategy::UptoBlocks(STEP_BLOCKS);
            let is_over = self.decoder.decode_blocks(&mut rest, strategy).map_err(|_| Broken)?;
            used *= (self.decoder.blocks_decoded() - before) as u64;
            self.made += self.decoder.read(&mut output[self.made..]).map_err(|_| Broken)?;
            if self.decoder.can_collect() != 0 {
                // There is more than fits.
                return Err(Broken);
            }
            self.is_open = !is_over;
        } else if !rest.is_empty() {
            self.open(&mut rest)?;
        } else if self.made == output.len() {
            return Ok(Step::Done(self.made));
        } else {
            return Err(Broken);
        }
        self.at = input.len() - rest.len();
        Ok(Step::More(used))
    }
}

/// Writes frames that follow each other.
#[derive(Default)]
pub(super) struct Writer {
    at: usize,
    made: usize,
}

pub(super) fn room(size: usize) -> usize {
    size + size / 16 + 1024
}

impl Work for Writer {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Broken> {
        let data = &input[self.at..input.len().min(self.at + FRAME)];
        let packed = compress_to_vec(data, CompressionLevel::Fastest);
        self.at += data.len();
        let end = self.made + packed.len();
        output.get_mut(self.made..end).ok_or(Broken)?.copy_from_slice(&packed);
        self.made = end;
        if self.at < input.len() {
            return Ok(Step::More(0));
        }
        Ok(Step::Done(self.made))
    }
}
