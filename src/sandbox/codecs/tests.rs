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

fn decode(form: u8, count: usize, data: &[u8]) -> Option<Vec<u8>> {
    convert(head(b'v', form, count), data)
}

fn integers(data: &[u8], count: usize) -> Option<Vec<u32>> {
    let made = decode(b'h', count, data)?;
    Some(made.as_chunks().0.iter().map(|value| u32::from_le_bytes(*value)).collect())
}

#[test]
fn runs_and_packed_integers_are_decoded() {
    // A width of 3 bits; the numbers from 0 to 7 packed, then a run of five sevens.
    let data = [3, 3, 0b1000_1000, 0b1100_0110, 0b1111_1010, 10, 7];
    let all = [0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7, 7];
    for count in 1..=all.len() {
        assert_eq!(integers(&data, count).unwrap(), all[..count]);
    }
    assert!(integers(&data, all.len() + 1).is_none());
    // The last group may be cut off.
    assert_eq!(integers(&data[..3], 2).unwrap(), [0, 1]);
    for end in 0..3 {
        assert!(integers(&data[..end], 2).is_none());
    }
    assert_eq!(integers(&[32, 3, 1, 2, 3, 4, 255, 255, 255, 255], 2).unwrap(), [0x0403_0201, !0]);
    for width in [0, 33, 255] {
        assert!(integers(&[width, 2, 0, 0, 0, 0], 1).is_none());
    }
    // A head without an end, and a run that is longer than any memory.
    assert!(integers(&[[8].as_slice(), &[255; 12]].concat(), 9).is_none());
    let most = [[1].as_slice(), &[254], &[255; 8], &[1, 1]].concat();
    assert_eq!(integers(&most, 9).unwrap(), [1; 9]);
}

#[test]
fn differences_are_decoded() {
    // Blocks of eight values in one part; 5, 4, 7, 7: at least -1 more, packed in two bits.
    let data = [8, 1, 4, 10, 1, 2, 0b0001_0100 | 4, 0];
    let made = decode(b'i', 4, &data).unwrap();
    let (values, end) = made.as_chunks::<8>();
    let values: Vec<_> = values.iter().map(|value| i64::from_le_bytes(*value)).collect();
    assert_eq!((values, end), (vec![5, 4, 4, 4], &[8, 0, 0, 0][..]));
    assert!(decode(b'i', 3, &data).is_none());
    for end in 0..7 {
        assert!(decode(b'i', 4, &data[..end]).is_none(), "{end}");
    }
    // Blocks and parts that are empty or do not fit, and integers of 65 bits.
    for (at, wrong) in [(0, 0), (0, 12), (1, 0), (1, 2), (5, 65)] {
        let mut data = data;
        data[at] = wrong;
        assert!(decode(b'i', 4, &data).is_none(), "{at}");
    }
}

#[test]
fn texts_become_a_pickled_list() {
    let inline = [&[2, 0, 0, 0][..], "é".as_bytes(), &[0; 4], &[1, 0, 0, 0], b"a"].concat();
    let apart = [&[2, 0, 0, 0][..], &[0; 4], &[1, 0, 0, 0], "éa".as_bytes()].concat();
    let list = |opcode: u8| {
        let part = |text: &str| [&[opcode, text.len() as u8, 0, 0, 0], text.as_bytes()].concat();
        [b"(".to_vec(), part("é"), part(""), part("a"), b"l.".to_vec()].concat()
    };
    for (form, data, opcode) in
        [(b't', &inline, b'X'), (b'b', &inline, b'B'), (b'T', &apart, b'X'), (b'B', &apart, b'B')]
    {
        assert_eq!(decode(form, 3, data).unwrap(), list(opcode));
        for end in 0..data.len() {
            assert!(decode(form, 3, &data[..end]).is_none(), "{end}");
        }
    }
    let invalid = [1, 0, 0, 0, 255];
    assert!(decode(b't', 1, &invalid).is_none() && decode(b'b', 1, &invalid).is_some());
    // A surrogate, which pickle's readers would take.
    assert!(decode(b't', 1, &[3, 0, 0, 0, 0xED, 0xA0, 0x80]).is_none());
    assert!(decode(b'b', 1, &[255; 9]).is_none());
}

/// A long text is copied in parts, whose ends are inside of characters.
#[test]
fn long_texts_are_copied_in_short_steps() {
    for start in ["", "a", "aa"] {
        let text = format!("{start}{}", "€".repeat(2 << 20));
        let length = (text.len() as u32).to_le_bytes();
        let mut data = [&length[..], text.as_bytes()].concat();
        let list = [b"(X", &data[..], b"l."].concat();
        assert!(decode(b't', 1, &data).unwrap() == list);
        let mut order = Order::read(head(b'v', b't', 1), data.len()).unwrap();
        let mut made = vec![0; order.room];
        let mut steps = 0;
        while let super::Step::More(_) = order.work.step(&data, &mut made).unwrap() {
            steps += 1;
        }
        assert!(steps >= 6, "{steps} steps");
        for at in [(1 << 20) + 4, (1 << 20) + 5, data.len() - 1] {
            let byte = std::mem::replace(&mut data[at], 255);
            assert!(decode(b't', 1, &data).is_none());
            data[at] = byte;
        }
        // The text ends inside a character.
        data[..4].copy_from_slice(&(text.len() as u32 - 1).to_le_bytes());
        assert!(decode(b't', 1, &data).is_none());
    }
}

#[test]
fn values_of_other_data_are_refused_in_short_steps() {
    let refused = [(b'h', 0), (b'x', 1), (b'h', 1 << 29), (b'i', 1 << 28), (b't', 3), (b'B', 3)];
    for (form, count) in refused {
        assert!(Order::read(head(b'v', form, count), 11).is_none());
    }
    for data in samples() {
        for form in *b"hitbTB" {
            for count in [1, 9, 1 << 16, 1 << 20] {
                decode(form, count, &data);
            }
        }
    }
    // Runs of nothing, one value for all, packed values, and texts of nothing.
    let zeros = [&[1][..], &vec![0; 8 << 20]].concat();
    let same = [&[1][..], &[0x80, 0x80, 0x80, 1], &[1]].concat();
    let packed = [&[8][..], &[0x81, 0x80, 0x80, 1], &vec![7; 8 << 20]].concat();
    for (form, count, data) in [
        (b'h', 1, &zeros),
        (b'h', 1 << 20, &same),
        (b'h', 1 << 20, &packed),
        (b't', 1 << 20, &zeros),
    ] {
        let mut order = Order::read(head(b'v', form, count), data.len()).unwrap();
        let mut made = vec![0; order.room];
        let mut steps = 0;
        while let Ok(super::Step::More(_)) = order.work.step(data, &mut made) {
            steps += 1;
        }
        assert!(steps >= 3, "{steps} steps");
    }
}
