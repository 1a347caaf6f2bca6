//! Decompresses, compresses and decodes for the guest, which would need minutes for a large file.
//!
//! A frame is a pure function: a codec, data, and the size of the data when decompressed, or the
//! number of values in the data. The result is written into memory that the guest allocates, so the
//! host holds at most the decoder's window. Work is done in steps, between which other runs proceed
//! and the deadline is checked.

mod block;
mod columns;
mod lz4_frames;
mod zstd;

use wasmtime::{Caller, Memory};

use super::reply::{allocate, finish};
use super::{State, fuel};
use crate::limits::MAX_CODEC_BYTES;

/// Opcode of the frames. The direction follows, the codec, and in four bytes the size of the
/// decompressed data or the number of values.
pub(super) const OPCODE: u8 = b'z';
const HEAD: usize = 7;

/// Fuel of a call.
const CALL_FUEL: u64 = 20_000;
/// Fuel for each byte that is read or written: about the time that Snappy takes.
const BYTE_FUEL: u64 = 8;

/// The data are not what the codec compresses to, or need more room than they state.
#[derive(Debug)]
struct Broken;

/// The result of a step.
enum Step {
    /// There is more to do. The step used this much fuel, beyond the fuel for its bytes.
    More(u64),
    /// All is done, with this many bytes of output.
    Done(usize),
}

/// Work on one piece of data, done in steps of a few milliseconds; a block of Snappy or LZ4 is one
/// step, of up to 0.2 s. Each step gets all of the data and the whole room for the result, in which
/// earlier steps wrote.
trait Work: Send {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Broken>;
}

/// Work that a frame asks for.
struct Order {
    work: Box<dyn Work>,
    /// Bytes to pay for in addition to the data: those of the decompressed data, or of the values.
    size: usize,
    /// Room for the result, in bytes.
    room: usize,
}

impl Order {
    /// Reads the head of a frame with `length` bytes of data; `None` if it is invalid.
    fn read(head: [u8; HEAD], length: usize) -> Option<Self> {
        let [_, direction, codec, size @ ..] = head;
        let size = u32::from_le_bytes(size) as usize;
        if direction == b'v' {
            return Self::values(codec, size, length);
        }
        if size == 0 || size > MAX_CODEC_BYTES || length > MAX_CODEC_BYTES {
            return None;
        }
        let (work, room): (Box<dyn Work>, usize) = match (direction, codec) {
            (b'd', b's') => (Box::new(block::Snappy), size),
            (b'd', b'r') => (Box::new(block::Lz4), size),
            (b'd', b'f') => (Box::<lz4_frames::Reader>::default(), size),
            (b'd', b'z') => (Box::new(zstd::Reader::new()), size),
            _ if size != length => return None,
            (b'c', b's') => (Box::new(block::ToSnappy), block::snappy_room(size)),
            (b'c', b'r') => (Box::new(block::ToLz4), block::lz4_room(size)),
            (b'c', b'f') => (Box::<lz4_frames::Writer>::default(), lz4_frames::room(size)),
            (b'c', b'z') => (Box::<zstd::Writer>::default(), zstd::room(size)),
            _ => return None,
        };
        Some(Self { work, size, room })
    }

    /// An order to decode so many values, which are bounded by the guest's memory alone.
    fn values(codec: u8, count: usize, length: usize) -> Option<Self> {
        let (work, room): (Box<dyn Work>, u64) = match codec {
            _ if count == 0 => return None,
            b'h' => (Box::<columns::Hybrid>::default(), count as u64 * 4),
            b'i' => (Box::<columns::Deltas>::default(), count as u64 * 8 + 4),
            b't' | b'b' | b'T' | b'B' if count <= length / 4 => {
                let (is_text, is_apart) = (codec | 32 == b't', codec < b'a');
                let work = columns::Texts::new(count, is_text, is_apart);
                (Box::new(work), columns::Texts::room(count, length))
            }
            _ => return None,
        };
        // Sizes in the guest's C library are signed.
        let room = i32::try_from(room).ok()? as usize;
        Some(Self {
            work,
            size: room,
            room,
        })
    }
}

/// Answers a frame at an address of the guest's memory. The answer is empty if the data are
/// invalid or the run is interrupted; `None` if the frame is.
pub(super) async fn answer(
    caller: &mut Caller<'_, State>,
    memory: Memory,
    (at, length): (u32, u32),
    outs: (u32, u32),
) -> wasmtime::Result<Option<i32>> {
    let (at, length) = (at as usize, length as usize);
    let mut head = [0; HEAD];
    let Some(data) = length.checked_sub(HEAD) else {
        return Ok(None);
    };
    if memory.read(&mut *caller, at, &mut head).is_err() {
        return Ok(None);
    }
    let Some(mut order) = Order::read(head, data) else {
        return Ok(None);
    };
    let control = caller.data().control.clone();
    fuel::charge(caller, CALL_FUEL).await?;
    let to = allocate(caller, order.room as u32).await?;
    if to == 0 {
        return Ok(None);
    }
    // Paid before the work, so that a run without fuel does not begin it, but not for room that the
    // guest cannot have.
    fuel::charge(caller, BYTE_FUEL * (data + order.size) as u64).await?;
    let mut written = 0;
    while !control.is_interrupted() {
        let bytes = memory.data_mut(&mut *caller);
        let from = at + HEAD..at + length;
        // They overlap only if the guest replaced its allocator.
        let Ok([input, output]) =
            bytes.get_disjoint_mut([from, to as usize..to as usize + order.room])
        else {
            return Ok(None);
        };
        match order.work.step(input, output) {
            Ok(Step::More(used)) => fuel::charge(caller, used).await?,
            Ok(Step::Done(size)) => {
                written = size;
                break;
            }
            Err(Broken) => break,
        }
        control.breathe().await;
    }
    Ok(Some(finish(caller, memory, (to, written as u32), outs)))
}

/// Answers a frame without a guest. Returns the size of the result, if there is one.
///
/// # Panics
///
/// If compressed data cannot be decompressed again.
#[cfg(feature = "fuzzing")]
pub(crate) fn answer_frame(frame: &[u8]) -> Option<usize> {
    let (head, data) = frame.split_first_chunk::<HEAD>()?;
    let made = convert(*head, data)?;
    if head[1] == b'c' {
        let mut back = *head;
        back[1] = b'd';
        assert!(convert(back, &made).as_deref() == Some(data), "the data changed");
    }
    Some(made.len())
}

#[cfg(any(test, feature = "fuzzing"))]
fn convert(head: [u8; HEAD], data: &[u8]) -> Option<Vec<u8>> {
    let mut order = Order::read(head, data.len())?;
    if order.room > 4 * MAX_CODEC_BYTES {
        return None;
    }
    let mut made = vec![0; order.room];
    loop {
        match order.work.step(data, &mut made) {
            Ok(Step::More(_)) => {}
            Ok(Step::Done(size)) => {
                made.truncate(size);
                return Some(made);
            }
            Err(Broken) => return None,
        }
    }
}

#[cfg(test)]
mod tests;
