//! Replies of the door, in memory that the guest allocates.

use wasmtime::{Caller, Extern, Memory};

use super::State;

// Return values that the guest's door module interprets.
const ANSWERED: i32 = 0;
pub(super) const FAULT: i32 = -2;

/// Tells the guest the address and length of the answer.
pub(super) fn finish(
    caller: &mut Caller<'_, State>,
    memory: Memory,
    (at, length): (u32, u32),
    (out_at, out_length): (u32, u32),
) -> i32 {
    let written = memory
        .write(&mut *caller, out_at as usize, &at.to_le_bytes())
        .and_then(|()| memory.write(&mut *caller, out_length as usize, &length.to_le_bytes()));
    if written.is_ok() { ANSWERED } else { FAULT }
}

/// Asks the guest for memory; 0 if it is out of memory.
pub(super) async fn allocate(caller: &mut Caller<'_, State>, length: u32) -> wasmtime::Result<u32> {
    let Some(Extern::Func(allocate)) = caller.get_export("host_alloc") else {
        return Ok(0);
    };
    if i32::try_from(length).is_err() {
        // The guest would take it for a negative size, and allocate a byte.
        return Ok(0);
    }
    let allocate = allocate.typed::<u32, u32>(&mut *caller)?;
    // At least one byte: even an empty answer needs an address.
    allocate.call_async(&mut *caller, length.max(1)).await
}
