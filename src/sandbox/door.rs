//! The door: the only function through which a guest calls the host's protocol.

use wasmtime::{Caller, Extern, Linker, Memory};

use super::missing_code::Missing;
use super::reply::{FAULT, allocate, finish};
use super::{State, codecs};
use crate::limits::{MAX_FRAME, MAX_FRAMES};
use crate::sandbox::calls::{Calls, Wait};

/// Opcode of the frame that asks whether a module can be imported.
const COMPILED_CODE: u8 = b'm';
/// The frame that asks for the size and usage of the guest's directories.
const SPACE: &[u8] = b"q";

/// Answers a guest's frames. All frames are untrusted input.
pub(crate) trait Host: Send {
    /// Answers one frame; `memory` is the guest's memory at the time of the call.
    fn answer(&mut self, frame: &[u8], memory: &[u8]) -> Answer;
}

/// The host's answer to a frame.
pub(crate) enum Answer {
    /// Answers with these bytes.
    Bytes(Vec<u8>),
    /// Writes these words to the guest's memory, each given as address and value, and answers
    /// nothing.
    Words(Vec<(u32, u32)>),
    /// Answers with the result of `wait`, or with `instead` if the guest is interrupted.
    Later { wait: Wait, instead: Vec<u8> },
    /// The frame was not understood: raises an exception in the guest.
    Refused,
    /// Ends the guest, to restart it on larger code.
    Ends(Missing),
}

/// Adds the door to the module's imports.
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
                if opcode(&caller, memory, at) == Some(codecs::OPCODE) {
                    let answered =
                        codecs::answer(&mut caller, memory, (at, length), (out_at, out_length));
                    return Ok(answered.await?.unwrap_or(FAULT));
                }
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

fn opcode(caller: &Caller<'_, State>, memory: Memory, at: u32) -> Option<u8> {
    memory.data(caller).get(at as usize).copied()
}

fn answer(caller: &mut Caller<'_, State>, memory: Memory, at: u32, length: u32) -> Answer {
    let (bytes, state) = memory.data_and_store_mut(caller);
    let start = at as usize;
    let frame = start
        .checked_add(length as usize)
        .filter(|_| length as usize <= MAX_FRAME)
        .and_then(|end| bytes.get(start..end));
    // Frames about tools have their own limits; beyond those they cost the host no more than this.
    if !frame.and_then(|frame| frame.first()).is_some_and(|opcode| Calls::knows(*opcode)) {
        state.frames += 1;
    }
    let frame = frame.filter(|_| state.frames <= MAX_FRAMES);
    #[cfg(feature = "escape")]
    if let Some(answer) = frame.and_then(super::escape::answer) {
        return answer;
    }
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

/// Copies the answer into memory that the guest allocates.
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
    if at == 0 || memory.write(&mut *caller, at as usize, answer).is_err() {
        return Ok(FAULT);
    }
    Ok(finish(caller, memory, (at, length), (out_at, out_length)))
}
