//! The C library's functions that compare and search bytes.

use super::{PAGE, old_and_new, python_module, random_numbers};

/// Results are the same at every alignment, also up to the last byte of the memory, whatever bytes
/// are before and behind.
#[test]
fn bytes_are_compared_and_searched_as_by_the_c_library() {
    let names = ["memcmp", "memchr", "__memrchr"];
    let [mut old, mut new] = old_and_new(&python_module(), &names, 6);
    let end = old.memory().len();
    let mut random = random_numbers();
    let mut draw = |below: usize| random() as usize % below;
    let mut not_zero = [0; 3];
    for round in 0..60_000 {
        let most = [5, 20, 70, 300][draw(4)];
        let count = draw(most);
        let a = [end - count, PAGE + draw(64)][draw(2)];
        // Overlaps, equal addresses, and ranges apart.
        let b = match draw(4) {
            0 => end - count,
            1 => (a + draw(40)).min(end - count),
            2 => a,
            _ => 3 * PAGE + draw(64),
        };
        let values = [1, 2, 256][draw(3)];
        let first: Vec<u8> = (0..count).map(|_| draw(values) as u8).collect();
        let mut second = first.clone();
        let mut byte = draw(256);
        if count > 0 {
            if draw(3) > 0 {
                second[draw(count)] = draw(256) as u8;
            }
            if draw(2) == 0 {
                // Only the lowest bits of the argument count.
                byte = usize::from(second[draw(count)]) + 256 * draw(1_000);
            }
        }
        // The bytes around are the wanted one, or another.
        let around = (byte as u8).wrapping_add((round % 2) as u8);
        let results = [&mut old, &mut new].map(|functions| {
            for address in [a, b] {
                let around_it = address - 40..(address + count + 40).min(end);
                functions.memory()[around_it].fill(around);
            }
            functions.write(a, &first);
            functions.write(b, &second);
            [
                functions.run("memcmp", &[a, b, count]),
                functions.run("memchr", &[b, byte, count]),
                functions.run("__memrchr", &[b, byte, count]),
            ]
        });
        assert_eq!(results[0], results[1], "{count} bytes at {a} and {b}, {byte}: {first:?}");
        for (found, not_zero) in results[0].into_iter().zip(&mut not_zero) {
            *not_zero += u32::from(found != Some(0));
        }
    }
    assert!(not_zero.iter().all(|&count| count > 10_000), "{not_zero:?}");
}
