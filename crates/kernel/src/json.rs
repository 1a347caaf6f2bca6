//! Estimates the memory that parsed JSON takes.

/// Maximum memory of the values in one text from a client, estimated.
pub const MAX_MEMORY: usize = 128 << 20;

/// Memory of an object besides its names and values: spare capacity.
const OBJECT: usize = 640;
/// Memory of a value besides its text.
const VALUE: usize = 40;

/// Estimated memory of the values in a JSON text, besides their text: `[0,0,0]` takes twenty times
/// its length, and `[{"":0}]` a hundred times.
#[must_use]
pub fn memory_of(text: &[u8]) -> usize {
    let mut memory = VALUE;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        memory += match byte {
            b'{' => OBJECT,
            b'[' | b',' => VALUE,
            b'"' => {
                skip_string(&mut bytes);
                0
            }
            _ => 0,
        };
    }
    memory
}

fn skip_string<'a>(bytes: &mut impl Iterator<Item = &'a u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn count(value: &Value) -> (usize, usize) {
        let add = |(a, b), (c, d)| (a + c, b + d);
        match value {
            Value::Array(list) => list.iter().map(count).fold((1, 0), add),
            Value::Object(map) => map.values().map(count).fold((1, 1), add),
            _ => (1, 0),
        }
    }

    #[test]
    fn no_value_is_left_out_and_text_is_none() {
        for value in [
            json!([0, [1, {"a": [], "b": {"c": "x,y[{"}}], "\\\"{,"]),
            json!({"a,b": "[{\\"}),
            json!(3),
        ] {
            let (values, objects) = count(&value);
            let memory = memory_of(value.to_string().as_bytes());
            assert!(memory >= values * 32 + objects * 600, "{value}: {memory}");
            assert!(memory <= (values + 4) * VALUE + objects * (OBJECT + VALUE), "{value}");
        }
        assert_eq!(memory_of(format!("\"{}\"", ",[{".repeat(1000)).as_bytes()), VALUE);
    }

    #[test]
    fn a_text_of_nothing_but_values_takes_too_much() {
        let zeros = |count: usize| format!("[{}0]", "0,".repeat(count));
        assert!(memory_of(zeros(1_000_000).as_bytes()) < MAX_MEMORY);
        assert!(memory_of(zeros(16_000_000).as_bytes()) > MAX_MEMORY);
        let objects = format!("[{}0]", "{\"\":0},".repeat(4_000_000));
        assert!(memory_of(objects.as_bytes()) > MAX_MEMORY);
    }
}
