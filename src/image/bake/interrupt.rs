//! Finds the words in memory that make CPython see a pending SIGINT, and tests them.
//!
//! The artifact has no symbols. But if C code calls `_thread.interrupt_main()` between two
//! observations of the host, without a bytecode in between, the words that change only there are
//! the three in question: two change from 0 to 1, and one gains a bit.

use std::sync::PoisonError;

use super::{Oven, StatusKind};
use crate::artifact::image::InterruptAddresses;
use crate::image::error::BakeError;

/// `_PY_SIGNALS_PENDING_BIT`.
const PENDING: u32 = 2;

/// Calls the host three times and raises the interrupt before the last call, all from C.
const OBSERVE: &str = "import _host, _thread, functools, operator
try:
    tuple(map(operator.call, [functools.partial(_host.call, b'iA'),
                              functools.partial(_host.call, b'iB'),
                              functools.partial(_host.call, b'iC'),
                              _thread.interrupt_main,
                              functools.partial(_host.call, b'iD')]))
except KeyboardInterrupt:
    pass
";

/// A program that only an interrupt ends.
const SPIN: &str = "while True:\n    pass\n";
/// Fuel after which the program is interrupted.
const SPINNING: u64 = 100_000_000;

/// Observation of the guest's memory: its previous contents, and the words that changed afterwards.
#[derive(Default)]
pub(super) struct Observation {
    last: Vec<u8>,
    /// Words that change between calls without an interrupt.
    noise: Vec<bool>,
    found: Vec<(u32, u32, u32)>,
}

impl Observation {
    pub(super) fn note(&mut self, letter: u8, memory: &[u8]) {
        if letter == b'A' {
            self.noise = vec![false; memory.len() / 4];
            self.found.clear();
        } else if self.last.len() == memory.len() {
            for (index, (old, new)) in words(&self.last).zip(words(memory)).enumerate() {
                if old == new {
                    continue;
                }
                if letter == b'D' {
                    if !self.noise[index] {
                        self.found.push((index as u32 * 4, old, new));
                    }
                } else {
                    self.noise[index] = true;
                }
            }
        }
        self.last = if letter == b'D' {
            Vec::new()
        } else {
            memory.to_vec()
        };
    }

    fn addresses(&self) -> Option<InterruptAddresses> {
        let of = |wanted: fn(u32, u32) -> bool| -> Vec<u32> {
            let matching = self.found.iter().filter(|(_, old, new)| wanted(*old, *new));
            matching.map(|(address, ..)| *address).collect()
        };
        let raised = of(|old, new| (old, new) == (0, 1));
        let gained = of(|old, new| old & PENDING == 0 && new == old | PENDING);
        match (&raised[..], &gained[..]) {
            ([tripped, is_tripped], [eval_breaker]) => Some(InterruptAddresses {
                tripped: *tripped,
                is_tripped: *is_tripped,
                eval_breaker: *eval_breaker,
            }),
            _ => None,
        }
    }
}

fn words(memory: &[u8]) -> impl Iterator<Item = u32> + '_ {
    memory.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

/// Finds the addresses in the oven's interpreter, and interrupts a loop with them.
pub(super) async fn find(oven: &mut Oven<'_>) -> Result<InterruptAddresses, BakeError> {
    let failed = |oven: &Oven<'_>, why| BakeError::Interrupt {
        image: oven.recipe.name.clone(),
        why,
    };
    oven.run("observing an interrupt", OBSERVE).await?;
    let addresses = {
        let seen = oven.observation.lock().unwrap_or_else(PoisonError::into_inner);
        tracing::debug!(words = ?seen.found, "words that an interrupt changes");
        seen.addresses()
    };
    let addresses = addresses.ok_or_else(|| failed(oven, "its words cannot be told apart"))?;
    oven.interpreter.instance().set_interrupt(addresses);
    // By fuel instead of time: the same recipe gives the same image on a busy machine.
    let observed = oven.observe(SPIN, Some(SPINNING)).await?;
    oven.interpreter.control().clear();
    match observed.transcript.status {
        Some(status) if status.status == StatusKind::Interrupted => Ok(addresses),
        _ => Err(failed(oven, "a loop did not end by it")),
    }
}
