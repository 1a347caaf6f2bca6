//! The formats of one block: Snappy, and LZ4 without frames.

use super::{Broken, Step, Work};

pub(super) struct Snappy;

impl Work for Snappy {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Broken> {
        if snap::raw::decompress_len(input).ok() != Some(output.len()) {
            return Err(Broken);
        }
        exactly(snap::raw::Decoder::new().decompress(input, output).ok(), output)
    }
}

pub(super) struct Lz4;

impl Work for Lz4 {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Broken> {
        exactly(lz4_flex::block::decompress_into(input, output).ok(), output)
    }
}

fn exactly(made: Option<usize>, output: &[u8]) -> Result<Step, Broken> {
    made.filter(|made| *made == output.len()).map(Step::Done).ok_or(Broken)
}

pub(super) struct ToSnappy;

impl Work for ToSnappy {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Broken> {
        snap::raw::Encoder::new().compress(input, output).map(Step::Done).map_err(|_| Broken)
    }
}

pub(super) struct ToLz4;

impl Work for ToLz4 {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Broken> {
        lz4_flex::block::compress_into(input, output).map(Step::Done).map_err(|_| Broken)
    }
}

pub(super) fn snappy_room(size: usize) -> usize {
    snap::raw::max_compress_len(size)
}

pub(super) fn lz4_room(size: usize) -> usize {
    lz4_flex::block::get_maximum_output_size(size)
}
