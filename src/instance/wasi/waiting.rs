//! Time and chance: sleeping in a way that can be interrupted, and random bytes.

use std::time::Duration;

use wasmtime::Linker;
use wasmtime_wasi::p1::wasi_snapshot_preview1 as p1;
use wiggle::GuestMemory;

use super::bytes::{offset, read_bytes, write_bytes};
use super::{FAULT, INVAL, IO, MODULE, SUCCESS, State, enter};
use crate::limits::MAX_SUBSCRIPTIONS;

/// Size of a subscription and of an event, and offsets in them (WASI preview 1, `poll_oneoff`).
const SUBSCRIPTION: i32 = 48;
const EVENT: i32 = 32;
const CLOCK_TAG: u8 = 0;

/// Random bytes that are made at once: whole blocks of those that follow from a seed.
const MAX_RANDOM: usize = 256 << 10;

pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        MODULE,
        "poll_oneoff",
        |mut caller, (subscriptions, events, count, out): (i32, i32, i32, i32)| {
            Box::new(async move {
                let (mut memory, state) = enter(&mut caller).await?;
                if !(1..=MAX_SUBSCRIPTIONS).contains(&count) {
                    return Ok(INVAL);
                }
                let mut shortest: Option<Sleep> = None;
                for index in 0..count {
                    let at = offset(subscriptions, (index * SUBSCRIPTION).cast_unsigned());
                    match at.and_then(|at| Sleep::read(&memory, at)) {
                        Some(Ok(sleep)) => {
                            let shorter = shortest
                                .as_ref()
                                .is_none_or(|s| sleep.remaining(state) < s.remaining(state));
                            if shorter {
                                shortest = Some(sleep);
                            }
                        }
                        // A descriptor: files and our streams are always ready, so nothing waits.
                        Some(Err(())) => {
                            return p1::poll_oneoff(
                                &mut state.wasi,
                                &mut memory,
                                subscriptions,
                                events,
                                count,
                                out,
                            )
                            .await;
                        }
                        None => return Ok(FAULT),
                    }
                }
                let Some(sleep) = shortest else {
                    return Ok(INVAL);
                };
                let time = sleep.remaining(state);
                if let Some(clock) = &state.clock {
                    clock.advance(time);
                } else {
                    // Woken early, it looks as if the time were over: the guest's C library does
                    // not know EINTR here, and the interrupt is met at the next bytecode.
                    let control = state.control.clone();
                    control.wait_for(tokio::time::sleep(time)).await;
                }
                Ok(sleep.write_event(&mut memory, events, out).unwrap_or(FAULT))
            })
        },
    )?;
    linker.func_wrap_async(MODULE, "random_get", |mut caller, (buffer, length): (i32, i32)| {
        Box::new(async move {
            let start = buffer.cast_unsigned() as usize;
            let end = start.saturating_add(length.cast_unsigned() as usize);
            {
                let (memory, _) = enter(&mut caller).await?;
                if !matches!(&memory, GuestMemory::Unshared(bytes) if end <= bytes.len()) {
                    return Ok(FAULT);
                }
            }
            // The call has to fill all of it: step by step, and between two steps others run and a
            // guest whose time is over is stopped.
            for at in (start..end).step_by(MAX_RANDOM) {
                let (mut memory, state) = enter(&mut caller).await?;
                let GuestMemory::Unshared(bytes) = &mut memory else {
                    return Ok(FAULT);
                };
                let Some(target) = bytes.get_mut(at..end.min(at + MAX_RANDOM)) else {
                    return Ok(FAULT);
                };
                if !state.fill_at_random(target) {
                    return Ok(IO);
                }
            }
            Ok(SUCCESS)
        })
    })?;
    Ok(())
}

impl State {
    /// Fills `target` with random bytes, those that follow from the seed where there is one; false
    /// where the system has none.
    pub(super) fn fill_at_random(&mut self, target: &mut [u8]) -> bool {
        match &mut self.random {
            Some(seeded) => {
                seeded.fill(target);
                true
            }
            None => getrandom::fill(target).is_ok(),
        }
    }
}

/// A subscription to a clock.
struct Sleep {
    user_data: u64,
    realtime: bool,
    absolute: bool,
    timeout: Duration,
}

impl Sleep {
    /// Reads a subscription: `Err` when it is to something else than a clock, `None` when it lies
    /// outside the memory.
    fn read(memory: &GuestMemory<'_>, at: i32) -> Option<Result<Self, ()>> {
        let bytes: [u8; SUBSCRIPTION as usize] = read_bytes(memory, at)?;
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        if bytes[8] != CLOCK_TAG {
            return Some(Err(()));
        }
        Some(Ok(Self {
            user_data: word(0),
            realtime: bytes[16] == 0,
            timeout: Duration::from_nanos(word(24)),
            absolute: bytes[40] & 1 != 0,
        }))
    }

    fn remaining(&self, state: &State) -> Duration {
        if !self.absolute {
            return self.timeout;
        }
        self.timeout.saturating_sub(state.now(self.realtime))
    }

    fn write_event(&self, memory: &mut GuestMemory<'_>, at: i32, count_at: i32) -> Option<i32> {
        let mut event = [0; EVENT as usize];
        event[..8].copy_from_slice(&self.user_data.to_le_bytes());
        write_bytes(memory, at, &event)?;
        write_bytes(memory, count_at, &1u32.to_le_bytes())?;
        Some(SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::clock::SeededBytes;

    #[test]
    fn random_bytes_are_the_same_in_steps() {
        let mut whole = vec![0; 2 * MAX_RANDOM + 40];
        SeededBytes::new(7).fill(&mut whole);
        let (mut stepped, mut seeded) = (vec![0; whole.len()], SeededBytes::new(7));
        stepped.chunks_mut(MAX_RANDOM).for_each(|part| seeded.fill(part));
        assert!(stepped == whole);
    }
}
