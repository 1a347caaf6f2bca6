//! Interruptible sleeping, and random bytes.

use std::time::Duration;

use wasmtime::Linker;

use super::guest_memory::{Answer, offset, read, write};
use super::{BADF, FAULT, INVAL, IO, MODULE, SUCCESS, State, enter, fill, returned};
use crate::limits::MAX_SUBSCRIPTIONS;

/// Sizes and offsets of subscriptions and events (WASI preview 1, `poll_oneoff`).
const SUBSCRIPTION: u32 = 48;
const EVENT: usize = 32;
const CLOCK_TAG: u8 = 0;

/// Random bytes generated per step: whole blocks of the seeded generator.
const MAX_RANDOM: usize = 256 << 10;

pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        MODULE,
        "poll_oneoff",
        |mut caller, (subscriptions, events, count, out): (i32, i32, i32, i32)| {
            Box::new(async move {
                let (memory, state) = enter(&mut caller).await?;
                if !(1..=MAX_SUBSCRIPTIONS).contains(&count) {
                    return Ok(INVAL);
                }
                let mut shortest: Option<(Duration, Wanted)> = None;
                let mut ready = Vec::new();
                for index in 0..count.cast_unsigned() {
                    let at = offset(subscriptions, index * SUBSCRIPTION);
                    match at.and_then(|at| Wanted::read(memory, at)) {
                        Err(error) => return Ok(error),
                        Ok(wanted @ Wanted { fd: Some(fd), .. }) => {
                            if state.files.foreign(fd).is_none()
                                && state.files.fd_fdstat_get(fd).is_err()
                            {
                                return Ok(BADF);
                            }
                            ready.push(wanted);
                        }
                        Ok(sleep) => {
                            let time = sleep.remaining(state);
                            if shortest.as_ref().is_none_or(|(shortest, _)| time < *shortest) {
                                shortest = Some((time, sleep));
                            }
                        }
                    }
                }
                // Files and output streams are always ready, so no wait is needed for them.
                if let Some((time, sleep)) = shortest.filter(|_| ready.is_empty()) {
                    if let Some(clock) = &state.clock {
                        clock.advance(time);
                    } else {
                        // If woken early, the call reports that the time is over: the guest's C
                        // library does not handle EINTR here, and the interrupt takes effect at the
                        // next bytecode.
                        let control = state.control.clone();
                        control.wait_for(tokio::time::sleep(time)).await;
                    }
                    ready.push(sleep);
                }
                returned(Wanted::write_events(&ready, memory, events, out))
            })
        },
    )?;
    linker.func_wrap_async(MODULE, "random_get", |mut caller, (buffer, length): (i32, i32)| {
        Box::new(async move {
            let start = buffer.cast_unsigned() as usize;
            let end = start.saturating_add(length.cast_unsigned() as usize);
            {
                let (memory, _) = enter(&mut caller).await?;
                if end > memory.len() {
                    return Ok(FAULT);
                }
            }
            // The call must fill the whole buffer. Between two steps, other tasks run, and a guest
            // past its deadline is stopped.
            for at in (start..end).step_by(MAX_RANDOM) {
                let (memory, state) = enter(&mut caller).await?;
                let Some(target) = memory.get_mut(at..end.min(at + MAX_RANDOM)) else {
                    return Ok(FAULT);
                };
                if !fill(state.random.as_mut(), target) {
                    return Ok(IO);
                }
            }
            Ok(SUCCESS)
        })
    })?;
    Ok(())
}

/// A subscription to a clock or to a descriptor.
struct Wanted {
    user_data: u64,
    kind: u8,
    fd: Option<u32>,
    realtime: bool,
    absolute: bool,
    timeout: Duration,
}

impl Wanted {
    fn read(memory: &[u8], at: i32) -> Answer<Self> {
        let bytes: [u8; SUBSCRIPTION as usize] = read(memory, at)?;
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let kind = bytes[8];
        Ok(Self {
            user_data: word(0),
            kind,
            fd: (kind != CLOCK_TAG).then_some((word(16) & 0xffff_ffff) as u32),
            realtime: bytes[16] == 0,
            timeout: Duration::from_nanos(word(24)),
            absolute: bytes[40] & 1 != 0,
        })
    }

    fn remaining(&self, state: &State) -> Duration {
        if !self.absolute {
            return self.timeout;
        }
        self.timeout.saturating_sub(state.now(self.realtime))
    }

    /// Returns the event that it produced.
    fn event(&self) -> [u8; EVENT] {
        let mut event = [0; EVENT];
        event[..8].copy_from_slice(&self.user_data.to_le_bytes());
        event[10] = self.kind;
        event[16] = u8::from(self.fd.is_some());
        event
    }

    fn write_events(ready: &[Self], memory: &mut [u8], at: i32, count_at: i32) -> Answer {
        let events: Vec<u8> = ready.iter().flat_map(Self::event).collect();
        write(memory, at, &events)?;
        write(memory, count_at, &(ready.len() as u32).to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use wasmtime::{Engine, Module, Store};

    use super::*;
    use crate::sandbox::clock::SeededBytes;

    /// Fills all except the last bytes of 16 MiB, which CPython would do 256 bytes at a time.
    const FILLS: &str = r#"(module
        (import "wasi_snapshot_preview1" "random_get" (func $fill (param i32 i32) (result i32)))
        (memory (export "memory") 256)
        (func (export "fill") (result i32) (call $fill (i32.const 3) (i32.const 16777200)))
        (func (export "beyond") (result i32) (call $fill (i32.const 3) (i32.const 16777216))))"#;

    #[tokio::test]
    async fn a_call_for_many_random_bytes_gives_way() {
        let engine = Engine::default();
        let module = Module::new(&engine, wat::parse_str(FILLS).unwrap()).unwrap();
        let mut linker = Linker::new(&engine);
        add_to_linker(&mut linker).unwrap();
        let mut state = State::bare();
        state.random = Some(SeededBytes::new(7));
        let mut store = Store::new(&engine, state);
        let instance = linker.instantiate_async(&mut store, &module).await.unwrap();
        let mut turns = 0;
        for (name, expected) in [("fill", SUCCESS), ("beyond", FAULT)] {
            let function = instance.get_typed_func::<(), i32>(&mut store, name).unwrap();
            let mut call = pin!(function.call_async(&mut store, ()));
            let done = std::future::poll_fn(|context| {
                turns += 1;
                call.as_mut().poll(context)
            });
            assert_eq!(done.await.unwrap(), expected, "{name}");
        }
        // There are 64 steps, each of which takes about a time slice.
        assert!(turns > 16, "others had {turns} turns");
        let memory = instance.get_memory(&mut store, "memory").unwrap();
        let filled = &memory.data(&store)[3..16_777_203];
        let mut expected = vec![0; filled.len()];
        SeededBytes::new(7).fill(&mut expected);
        assert!(filled == expected, "other bytes than those that follow from the seed");
    }

    #[test]
    fn random_bytes_are_the_same_in_steps() {
        let mut whole = vec![0; 2 * MAX_RANDOM + 40];
        SeededBytes::new(7).fill(&mut whole);
        let (mut stepped, mut seeded) = (vec![0; whole.len()], SeededBytes::new(7));
        stepped.chunks_mut(MAX_RANDOM).for_each(|part| seeded.fill(part));
        assert!(stepped == whole);
    }
}
