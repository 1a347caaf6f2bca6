//! zlib's functions.

use super::{Functions, PAGE, old_and_new, python_module, random_numbers};
use crate::artifact::split;

const WINDOW: usize = 32_768;

/// Writes 32-bit numbers at offsets from an address.
fn write_fields(functions: &mut Functions, address: usize, fields: &[(usize, usize)]) {
    for &(offset, value) in fields {
        functions.write(address + offset, &(value as u32).to_le_bytes());
    }
}

#[test]
fn checksums_are_those_of_zlib() {
    let [mut old, mut new] = old_and_new(&python_module(), &["adler32_z"], 4);
    let end = old.memory().len();
    let mut random = random_numbers();
    let mut draw = |below: usize| random() as usize % below;
    for round in 0..4_000 {
        let most = [20, 200, 3_000, 12_000, 5_600][round % 5];
        let count = draw(most) + usize::from(round % 5 == 4) * 5_500;
        let address = [end - count, PAGE + draw(64)][draw(2)];
        // Sums that zlib does not return are taken as well.
        let before = [1, draw(1 << 32), 0xffff_ffff, 0xfff0_fff0, 0][draw(5)];
        let bytes: Vec<u8> = match draw(2) {
            0 => vec![255; count],
            _ => (0..count).map(|_| draw(256) as u8).collect(),
        };
        let results = [&mut old, &mut new].map(|functions| {
            functions.write(address, &bytes);
            [[before, address, count], [before, 0, count], [before, 0, 0]]
                .map(|arguments| functions.run("adler32_z", &arguments))
        });
        assert_eq!(results[0], results[1], "{count} bytes at {address} after {before:#x}");
    }
}

/// The same match is found in every window, with every setting.
#[test]
fn matches_are_those_of_zlib() {
    const STATE: usize = PAGE;
    const BYTES: usize = 2 * PAGE;
    const PREVIOUS: usize = 4 * PAGE;
    let [mut old, mut new] = old_and_new(&python_module(), &["longest_match"], 8);
    let mut random = random_numbers();
    let mut draw = |below: usize| random() as usize % below;
    let mut lengths = Vec::new();
    for round in 0..300 {
        let values = [2, 4, 26, 256, 1][round % 5];
        let mut bytes: Vec<u8> = (0..2 * WINDOW).map(|_| draw(values) as u8).collect();
        if round % 3 == 0 {
            let mut at = 300;
            while at + 300 < bytes.len() {
                let from = draw(at - 1);
                let length = 3 + draw(280);
                for offset in 0..length {
                    bytes[at + offset] = bytes[from + offset];
                }
                at += length + 1;
            }
        }
        let at = 1_000 + draw(2 * WINDOW - 262 - 1_000);
        // Chains of places with the same three bytes.
        let mut last = std::collections::HashMap::new();
        let mut previous = vec![0; 2 * WINDOW];
        let mut first = 0;
        for (place, three) in bytes.windows(3).enumerate().take(at + 1) {
            first = last.insert(three, place).unwrap_or(0);
            let slot = place % WINDOW * 2;
            previous[slot..slot + 2].copy_from_slice(&(first as u16).to_le_bytes());
        }
        if first == 0 || at - first > WINDOW - 262 {
            continue;
        }
        let lookahead = [3 + draw(300), 2 * WINDOW - at][usize::from(draw(4) > 0)];
        let fields = [
            (44, WINDOW),
            (52, WINDOW - 1),
            (56, BYTES),
            (64, PREVIOUS),
            (108, at),
            (112, 77),
            (116, lookahead),
            (120, 2 + draw(20) * draw(2)),
            (124, [4, 32, 128, 1_024, 4_096][draw(5)]),
            (140, [4, 8, 32][draw(3)]),
            (144, [16, 128, 258][draw(3)]),
        ];
        let results = [&mut old, &mut new].map(|functions| {
            functions.write(BYTES, &bytes);
            functions.write(PREVIOUS, &previous);
            write_fields(functions, STATE, &fields);
            let length = functions.run("longest_match", &[STATE, first]).unwrap();
            (length, functions.memory()[PAGE..].to_vec())
        });
        assert!(results[0] == results[1], "{fields:?}: {} {}", results[0].0, results[1].0);
        lengths.push(results[0].0);
    }
    for wanted in [3..30, 30..258, 258..259] {
        assert!(lengths.iter().any(|length| wanted.contains(length)), "{wanted:?}");
    }
}

/// Lengths of the codes of `count` symbols out of `all`: a complete code.
fn code_lengths(
    count: usize,
    all: usize,
    is_deep: bool,
    draw: &mut impl FnMut(usize) -> usize,
) -> Vec<u8> {
    let mut lengths = vec![0_u8];
    while lengths.len() < count {
        let deepest =
            (0..lengths.len()).filter(|&at| lengths[at] < 15).max_by_key(|&at| lengths[at]);
        let Some(deepest) = deepest else {
            break;
        };
        let drawn = draw(lengths.len());
        let at = if lengths[drawn] == 15 || is_deep && draw(3) > 0 {
            deepest
        } else {
            drawn
        };
        lengths[at] += 1;
        lengths.push(lengths[at]);
    }
    lengths.resize(all, 0);
    for at in (1..all).rev() {
        lengths.swap(at, draw(at + 1));
    }
    lengths
}

/// Random bits are decompressed the same with random codes, up to the same end or error.
#[test]
fn bits_are_decompressed_as_by_zlib() {
    const STREAM: usize = 0;
    const STATE: usize = 256;
    const LENGTHS: usize = 8_192;
    const WORK: usize = 12_288;
    const NEXT_TABLE: usize = 16_384;
    const TABLE_BITS: usize = NEXT_TABLE + 4;
    const LENGTH_TABLE: usize = PAGE;
    const DISTANCE_TABLE: usize = 2 * PAGE;
    const WINDOW_BYTES: usize = 3 * PAGE;
    const INPUT: usize = 4 * PAGE;
    const OUTPUT: usize = 6 * PAGE;
    const MODE: usize = 4;
    /// The mode in which codes are decoded.
    const CODES: u32 = 16_200;
    let module = python_module();
    // `inflate_table` reads constants.
    let constants = split(&module).unwrap().memory;
    let base = constants.len().next_multiple_of(PAGE);
    let pages = base / PAGE + 24;
    let mut both = old_and_new(&module, &["inflate_fast", "inflate_table"], pages as u32);
    for functions in &mut both {
        functions.write(PAGE, &constants[PAGE..]);
    }
    let mut random = random_numbers();
    let mut draw = |below: usize| random() as usize % below;
    let mut ends = [0; 3];
    for round in 0..400 {
        let mut lengths = code_lengths(2 + draw(285), 286, draw(2) == 0, &mut draw);
        // The end of the block has a code, which is rare in every other round.
        let end = match round % 2 {
            0 => (0..286).max_by_key(|&symbol| lengths[symbol]),
            _ => (0..286).find(|&symbol| lengths[symbol] > 0),
        };
        lengths.swap(256, end.unwrap());
        lengths.extend(code_lengths(2 + draw(29), 30, draw(2) == 0, &mut draw));
        let lengths: Vec<u8> =
            lengths.iter().flat_map(|&length| u16::from(length).to_le_bytes()).collect();
        let input = [6 + draw(200), 100_000][usize::from(round % 5 > 0)];
        let output = [258 + draw(3_000), 1_000_000][usize::from(round % 7 > 0)];
        // Bytes that are in the output already.
        let before = draw(5_000) * draw(2);
        let bytes: Vec<u8> = (0..input).map(|_| draw(256) as u8).collect();
        let window: Vec<u8> = (0..WINDOW).map(|_| draw(256) as u8).collect();
        let have = [draw(WINDOW), WINDOW, WINDOW][draw(3)];
        let next = if have < WINDOW { have } else { draw(WINDOW) };
        let bits = draw(8);
        let hold = draw(1 << bits);
        let [old, new] = both.each_mut().map(|functions| {
            functions.memory()[base..].fill(0x5a);
            functions.write(base + LENGTHS, &lengths);
            let tables = [(1, 0, 286, LENGTH_TABLE, 9), (2, 572, 30, DISTANCE_TABLE, 6)].map(
                |(kind, offset, count, table, bits)| {
                    let fields = [(NEXT_TABLE, base + table), (TABLE_BITS, bits)];
                    write_fields(functions, base, &fields);
                    let arguments = [
                        kind,
                        base + LENGTHS + offset,
                        count,
                        base + NEXT_TABLE,
                        base + TABLE_BITS,
                        base + WORK,
                    ];
                    assert_eq!(functions.run("inflate_table", &arguments), Some(0));
                    functions.read_u32(base + TABLE_BITS) as usize
                },
            );
            functions.write(base + WINDOW_BYTES, &window);
            functions.write(base + INPUT, &bytes);
            let stream = [
                (0, base + INPUT),
                (4, input),
                (12, base + OUTPUT + before),
                (16, output),
                (24, 0),
                (28, base + STATE),
            ];
            write_fields(functions, base + STREAM, &stream);
            let state = [
                (MODE, CODES as usize),
                (24, WINDOW),
                (44, WINDOW),
                (48, have),
                (52, next),
                (56, base + WINDOW_BYTES),
                (60, hold),
                (64, bits),
                (80, base + LENGTH_TABLE),
                (84, base + DISTANCE_TABLE),
                (88, tables[0]),
                (92, tables[1]),
                // A distance beyond the window is an error.
                (7_108, 1),
            ];
            write_fields(functions, base + STATE, &state);
            functions.run("inflate_fast", &[base + STREAM, output + before]);
            let mode = functions.read_u32(base + STATE + MODE);
            let end = functions.read_u32(base + STREAM + 12) as usize;
            let memory = functions.memory();
            let behind = &memory[base + OUTPUT + before + output..][..64];
            assert!(behind.iter().all(|&byte| byte == 0x5a), "{round}");
            let fields = memory[base..base + LENGTHS].to_vec();
            (mode, fields, memory[base + OUTPUT..end].to_vec())
        });
        let kind = match old.0 {
            CODES => {
                // The input or the output is almost at its end. Which code is the last one depends
                // on how many bits are read at once.
                let count = old.2.len().min(new.2.len());
                assert!(old.2[..count] == new.2[..count] && new.0 == CODES, "{round}");
                assert!(old.2.len().abs_diff(new.2.len()) < 600, "{round}");
                0
            }
            mode => {
                assert!(old == new, "{round}: mode {mode} {}", new.0);
                1 + usize::from(mode == CODES - 9)
            }
        };
        ends[kind] += 1;
    }
    assert!(ends.iter().all(|&count| count > 20), "{ends:?}");
}
