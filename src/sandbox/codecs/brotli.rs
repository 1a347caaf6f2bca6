//! Brotli.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

use super::{Broken, Step, Work};

/// Input and output of a step, in bytes.
const STEP_INPUT: usize = 1 << 14;
const STEP_OUTPUT: usize = 1 << 18;

pub(super) struct Reader {
    state: Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>,
    at: usize,
    made: usize,
}

impl Reader {
    pub(super) fn new() -> Self {
        let new = StandardAlloc::default;
        Self {
            // Refuses windows of more than 16 MiB.
            state: Box::new(BrotliState::new_strict(new(), new(), new())),
            at: 0,
            made: 0,
        }
    }
}

impl Work for Reader {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Broken> {
        let end = input.len().min(self.at + STEP_INPUT);
        let (mut given, mut room) = (end - self.at, STEP_OUTPUT.min(output.len() - self.made));
        let result = BrotliDecompressStream(
            &mut given,
            &mut self.at,
            &input[..end],
            &mut room,
            &mut self.made,
            output,
            &mut 0,
            &mut self.state,
        );
        let is_whole = (self.at == input.len(), self.made == output.len());
        match result {
            BrotliResult::ResultSuccess if is_whole == (true, true) => Ok(Step::Done(self.made)),
            BrotliResult::NeedsMoreInput if !is_whole.0 => Ok(Step::More(0)),
            BrotliResult::NeedsMoreOutput if !is_whole.1 => Ok(Step::More(0)),
            _ => Err(Broken),
        }
    }
}
