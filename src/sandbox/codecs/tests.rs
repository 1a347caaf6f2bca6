//! Round trips, and data that lie about themselves.

use super::{HEAD, Order, convert};
use crate::limits::MAX_CODEC_BYTES;

fn head(direction: u8, codec: u8, size: usize) -> [u8; HEAD] {
    let [a, b, c, d] = (size as u32).to_le_bytes();
    [b'z', direction, codec, a, b, c, d]
}

fn pack(codec: u8, data: &[u8]) -> Vec<u8> {
    convert(head(b'c', codec, data.len()), data).unwrap()
}

fn unpack(codec: u8, data: &[u8], size: usize) -> Option<Vec<u8>> {
    convert(head(b'd', codec, size), data)
}

/// Bytes that look random, and the same with repetitions.
fn samples() -> Vec<Vec<u8>> {
    let mut state = 1_u64;
    let mut noise = |length: usize| -> Vec<u8> {
        let next = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        (0..length).map(next).collect()
    };
    let mut found = Vec::new();
    for length in [1, 2, 3, 15, 64, 1_000, 65_537, 131_072, 1 << 20, (4 << 20) + 5] {
        found.push(noise(length));
        found.push(vec![7; length]);
        found.push(noise(100).into_iter().cycle().take(length).collect());
    }
    found
}

#[test]
fn what_is_compressed_is_decompressed() {
    for data in samples() {
        for codec in *b"srfz" {
            let packed = pack(codec, &data);
            assert!(unpack(codec, &packed, data.len()).unwrap() == data);
            assert!(unpack(codec, &packed, data.len() + 1).is_none());
            assert!(data.len() == 1 || unpack(codec, &packed, data.len() - 1).is_none());
            assert!(unpack(codec, &packed[..packed.len() - 1], data.len()).is_none());
        }
    }
}

#[test]
fn zstandard_of_the_c_library_is_read_and_the_other_way_around() {
    for data in samples() {
        for level in if data.len() > 131_072 {
            &[1, 3][..]
        } else {
            &[1, 3, 19]
        } {
            let packed = zstd::bulk::compress(&data, *level).unwrap();
            assert!(unpack(b'z', &packed, data.len()).unwrap() == data);
        }
        let packed = pack(b'z', &data);
        assert!(zstd::bulk::decompress(&packed, data.len()).unwrap() == data);
    }
}

#[test]
fn frames_that_follow_each_other_are_read() {
    let skipped = [&0x184D_2A53_u32.to_le_bytes()[..], &[3, 0, 0, 0], b"abc"].concat();
    for codec in *b"fz" {
        let one = pack(codec, b"some text some text some text");
        let all = [&skipped[..], &one, &skipped, &one].concat();
        assert_eq!(unpack(codec, &all, 58).unwrap().len(), 58);
        assert!(unpack(codec, &all, 29).is_none());
        assert!(unpack(codec, &[&all[..], b"x"].concat(), 58).is_none());
    }
}

/// A frame as liblz4 writes it: the second block refers to the first.
#[test]
fn linked_blocks_of_lz4_are_read() {
    let block = |data: &[u8], is_plain: bool| {
        let length = data.len() as u32 | if is_plain { 1 << 31 } else { 0 };
        [&length.to_le_bytes()[..], data].concat()
    };
    let parts = [
        &[0x04, 0x22, 0x4D, 0x18, 0x40, 0x40, 0xC0][..],
        &block(b"0123456789abcdef", true),
        // A copy of the first 12 bytes, and five literals.
        &block(&[0x08, 16, 0, 0x50, b'v', b'w', b'x', b'y', b'z'], false),
        &[0; 4],
    ];
    assert_eq!(unpack(b'f', &parts.concat(), 33).unwrap(), b"0123456789abcdef0123456789abvwxyz");
    let mut alone = parts.concat();
    alone[4] |= 0x20;
    assert!(unpack(b'f', &alone, 33).is_none(), "independent blocks refer to nothing");
}

#[test]
fn bombs_stop_at_the_size_that_they_state() {
    let zeros = vec![0; 32 << 20];
    for codec in *b"srfz" {
        let packed = pack(codec, &zeros);
        for size in [1, 1 << 10, 1 << 20] {
            assert!(unpack(codec, &packed, size).is_none());
        }
    }
    // A window of 2 GiB.
    assert!(unpack(b'z', &[0x28, 0xB5, 0x2F, 0xFD, 0, 0xA8, 1, 0, 0], 1).is_none());
}

#[test]
fn frames_that_are_not_valid_are_refused() {
    let orders = [
        (head(b'd', b's', 0), 1),
        (head(b'd', b's', MAX_CODEC_BYTES + 1), 1),
        (head(b'd', b's', 1 << 31), 1),
        (head(b'd', b's', u32::MAX as usize), 1),
        (head(b'd', b's', 1), MAX_CODEC_BYTES + 1),
        (head(b'd', b'x', 1), 1),
        (head(b'x', b's', 1), 1),
        (head(b'c', b's', 2), 1),
        (head(b'd', b'b', 1), 1),
    ];
    for (head, length) in orders {
        assert!(Order::read(head, length).is_none(), "{head:?}");
    }
    assert!(Order::read(head(b'd', b's', MAX_CODEC_BYTES), MAX_CODEC_BYTES).is_some());
}

/// The same data take the same steps, so they cost the same fuel.
#[test]
fn steps_are_short_and_repeat() {
    let data = vec![3; 8 << 20];
    for codec in *b"fz" {
        let packed = pack(codec, &data);
        let steps = || {
            let mut order = Order::read(head(b'd', codec, data.len()), packed.len()).unwrap();
            let mut made = vec![0; order.room];
            let mut used = Vec::new();
            while let super::Step::More(fuel) = order.work.step(&packed, &mut made).unwrap() {
                used.push(fuel);
            }
            used
        };
        assert!(steps().len() >= 2, "one step");
        assert_eq!(steps(), steps());
    }
}
