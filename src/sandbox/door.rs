//! The door: the one function through which a guest speaks to the host.

use wasmtime::{Caller, Extern, Linker, Memory};

use super::State;
use super::missing_code::Missing;
use crate::limits::{MAX_FRAME, MAX_FRAMES};
use crate::sandbox::calls::{Calls, Wait};

/// The opcode of the frame that asks whether a module can be imported.
const COMPILED_CODE: u8 = b'm';
/// The frame that asks how much room the guest's directories have and how much of it is used.
const SPACE: &[u8] = b"q";

// What the guest's door module makes of the return value.
const ANSWERED: i32 = 0;
const FAULT: i32 = -2;

/// Answers a guest's frames. Everything in a frame is hostile input.
pub(crate) trait Host: Send {
    /// Answers one frame; `memory` is the guest's, as it was when it called.
    fn answer(&mut self, frame: &[u8], memory: &[u8]) -> Answer;
}

/// Answer of the host to a frame.
pub(crate) enum Answer {
    /// These bytes.
    Bytes(Vec<u8>),
    /// None, once these words are in the guest's memory: an address, and what is to be there.
    Words(Vec<(u32, u32)>),
    /// What this gives; to a guest that is interrupted meanwhile, `instead`.
    Later { wait: Wait, instead: Vec<u8> },
    /// The frame was not understood: an exception in the guest.
    Refused,
    /// None: the guest is to begin again on more code.
    Ends(Missing),
}

/// Adds the door to what the module can import.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        "host",
        "call",
        |mut caller, (at, length, out_at, out_length): (u32, u32, u32, u32)| {
            Box::new(async move {
                let Some(Extern::Memory(memory)) = caller.get_export("memory") else {
                    return Ok(FAULT);
                };
                let control = caller.data().control.clone();
                control.breathe().await;
                let answer = answer(&mut caller, memory, at, length);
                if let Some(watched) = caller.data().watched() {
                    watched.await;
                }
                let bytes = match answer {
                    Answer::Bytes(bytes) => bytes,
                    Answer::Words(words) => {
                        for (address, word) in words {
                            memory.write(&mut caller, address as usize, &word.to_le_bytes())?;
                        }
                        Vec::new()
                    }
                    Answer::Later { wait, instead } => {
                        control.wait_for(wait).await.unwrap_or(instead)
                    }
                    Answer::Refused => return Ok(FAULT),
                    Answer::Ends(missing) => return Err(wasmtime::Error::new(missing)),
                };
                deliver(&mut caller, memory, &bytes, out_at, out_length).await
            })
        },
    )?;
    Ok(())
}

fn answer(caller: &mut Caller<'_, State>, memory: Memory, at: u32, length: u32) -> Answer {
    let (bytes, state) = memory.data_and_store_mut(caller);
    let start = at as usize;
    let frame = start
        .checked_add(length as usize)
        .filter(|_| length as usize <= MAX_FRAME)
        .and_then(|end| bytes.get(start..end));
    // Those about tools have limits of their own, and past them cost the host no more than this.
    if !frame.and_then(|frame| frame.first()).is_some_and(|opcode| Calls::knows(*opcode)) {
        state.frames += 1;
    }
    let frame = frame.filter(|_| state.frames <= MAX_FRAMES);
    match frame {
        Some(SPACE) => {
            let used = state.files.usage().bytes;
            let total = state.files.limits().bytes.max(used);
            Answer::Bytes(format!("[{total},{used}]").into_bytes())
        }
        Some([COMPILED_CODE, name @ ..]) => {
            let is_seen = state.recorder.has_told() || state.calls.has_any();
            state.held.answer(name, is_seen).map_or_else(Answer::Ends, Answer::Bytes)
        }
        Some(frame) => state.host.answer(frame, bytes),
        None => Answer::Refused,
    }
}

/// Puts the answer into memory that the guest allocates for it.
async fn deliver(
    caller: &mut Caller<'_, State>,
    memory: Memory,
    answer: &[u8],
    out_at: u32,
    out_length: u32,
) -> wasmtime::Result<i32> {
    let Ok(length) = u32::try_from(answer.len()) else {
        return Ok(FAULT);
    };
    let ready = caller.data_mut().answer.take();
    let at = match ready.filter(|(_, room)| *room >= length) {
        Some((at, _)) => at,
        None => allocate(caller, length).await?,
    };
    if at == 0 {
        return Ok(FAULT);
    }
    let written = memory
        .write(&mut *caller, at as usize, answer)
        .and_then(|()| memory.write(&mut *caller, out_at as usize, &at.to_le_bytes()))
        .and_then(|()| memory.write(&mut *caller, out_length as usize, &length.to_le_bytes()));
    Ok(if written.is_ok() { ANSWERED } else { FAULT })
}

/// Asks the guest for memory; 0 when it has none.
async fn allocate(caller: &mut Caller<'_, State>, length: u32) -> wasmtime::Result<u32> {
    let Some(Extern::Func(allocate)) = caller.get_export("host_alloc") else {
        return Ok(0);
    };
    let allocate = allocate.typed::<u32, u32>(&mut *caller)?;
    // One byte at least: an address is expected even for an empty answer.
    allocate.call_async(&mut *caller, length.max(1)).await
}
