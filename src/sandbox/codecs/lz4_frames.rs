//! LZ4's frame format. Checksums are ignored.

use super::{Broken, Step, Work, block};

const MAGIC: u32 = 0x184D_2204;
/// Magic number of skippable frames; the last four bits are free.
const SKIPPED: u32 = 0x184D_2A50;
/// Marks the length of a block that is not compressed.
const PLAIN: u32 = 1 << 31;
/// Distance that a block may refer back, in bytes.
const WINDOW: usize = 1 << 16;
/// Output and heads after which a step ends.
const STEP_BYTES: usize = 1 << 20;
const STEP_HEADS: usize = 1_000;

/// Reads frames that follow each other.
#[derive(Default)]
pub(super) struct Reader {
    at: usize,
    made: usize,
    frame: Option<Frame>,
}

struct Frame {
    /// Start of its output.
    start: usize,
    /// Whether blocks refer to earlier blocks.
    is_linked: bool,
    /// Maximum length of a decompressed block.
    block: usize,
    /// Lengths of the checksums of each block and of the frame.
    sums: (usize, usize),
}

impl Work for Reader {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Broken> {
        let before = self.made;
        for _ in 0..STEP_HEADS {
            match self.frame.take() {
                None if self.at == input.len() && self.made == output.len() => {
                    return Ok(Step::Done(self.made));
                }
                None => self.open(input)?,
                Some(frame) => self.frame = self.block(frame, input, output)?,
            }
            if self.made - before >= STEP_BYTES {
                break;
            }
        }
        Ok(Step::More(0))
    }
}

impl Reader {
    fn take<'a>(&mut self, input: &'a [u8], length: usize) -> Result<&'a [u8], Broken> {
        let end = self.at.checked_add(length).ok_or(Broken)?;
        let taken = input.get(self.at..end).ok_or(Broken)?;
        self.at = end;
        Ok(taken)
    }

    fn number(&mut self, input: &[u8]) -> Result<u32, Broken> {
        let bytes = self.take(input, 4)?;
        bytes.try_into().map(u32::from_le_bytes).map_err(|_| Broken)
    }

    /// Reads the head of a frame.
    fn open(&mut self, input: &[u8]) -> Result<(), Broken> {
        let magic = self.number(input)?;
        if magic & !15 == SKIPPED {
            let length = self.number(input)?;
            self.take(input, length as usize)?;
            return Ok(());
        }
        let &[flags, block] = self.take(input, 2)? else {
            return Err(Broken);
        };
        let block = match block >> 4 & 7 {
            power @ 4..=7 => 1 << (8 + 2 * power),
            _ => return Err(Broken),
        };
        let has = |bit: u8| flags & bit != 0;
        // Dictionaries are not supported.
        if magic != MAGIC || flags >> 6 != 1 || has(1) {
            return Err(Broken);
        }
        // The size of the content, if it is given, and the checksum of the head.
        self.take(input, if has(8) { 9 } else { 1 })?;
        self.frame = Some(Frame {
            start: self.made,
            is_linked: !has(32),
            block,
            sums: (if has(16) { 4 } else { 0 }, if has(4) { 4 } else { 0 }),
        });
        Ok(())
    }

    /// Reads a block. Returns the frame, unless that was its end.
    fn block(
        &mut self,
        frame: Frame,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<Option<Frame>, Broken> {
        let length = self.number(input)?;
        if length == 0 {
            self.take(input, frame.sums.1)?;
            return Ok(None);
        }
        let data = self.take(input, (length & !PLAIN) as usize)?;
        self.take(input, frame.sums.0)?;
        let (before, room) = output.split_at_mut(self.made);
        let most = frame.block.min(room.len());
        let room = &mut room[..most];
        self.made += if length & PLAIN != 0 {
            room.get_mut(..data.len()).ok_or(Broken)?.copy_from_slice(data);
            data.len()
        } else if frame.is_linked {
            let start = frame.start.max(before.len().saturating_sub(WINDOW));
            let made = lz4_flex::block::decompress_into_with_dict(data, room, &before[start..]);
            made.map_err(|_| Broken)?
        } else {
            lz4_flex::block::decompress_into(data, room).map_err(|_| Broken)?
        };
        Ok(Some(frame))
    }
}

/// Length of a block that is written: the largest that the format has.
const BLOCK: usize = 4 << 20;
/// The head of a frame of independent blocks of this length, with its checksum.
const HEAD: [u8; 7] = [0x04, 0x22, 0x4D, 0x18, 0x60, 0x70, 0x73];

/// Writes one frame.
#[derive(Default)]
pub(super) struct Writer {
    at: usize,
    made: usize,
}

pub(super) fn room(size: usize) -> usize {
    let blocks = size.div_ceil(BLOCK);
    HEAD.len() + 4 + blocks * (4 + block::lz4_room(0)) + block::lz4_room(size)
}

impl Work for Writer {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Broken> {
        if self.at == 0 {
            self.put(output, &HEAD)?;
        }
        let data = &input[self.at..input.len().min(self.at + BLOCK)];
        self.at += data.len();
        let (length, rest) = output
            .get_mut(self.made..)
            .and_then(|o| o.split_first_chunk_mut::<4>())
            .ok_or(Broken)?;
        let packed = lz4_flex::block::compress_into(data, rest).map_err(|_| Broken)?;
        let taken = if packed < data.len() {
            *length = (packed as u32).to_le_bytes();
            packed
        } else {
            *length = (data.len() as u32 | PLAIN).to_le_bytes();
            rest.get_mut(..data.len()).ok_or(Broken)?.copy_from_slice(data);
            data.len()
        };
        self.made += 4 + taken;
        if self.at < input.len() {
            return Ok(Step::More(0));
        }
        self.put(output, &[0; 4])?;
        Ok(Step::Done(self.made))
    }
}

impl Writer {
    fn put(&mut self, output: &mut [u8], bytes: &[u8]) -> Result<(), Broken> {
        let end = self.made + bytes.len();
        output.get_mut(self.made..end).ok_or(Broken)?.copy_from_slice(bytes);
        self.made = end;
        Ok(())
    }
}
