//! Compares functions of the Python module with those that replace them.

mod bytes;
mod zlib;

use std::fs;

use belljar_passes::replaced_functions;
use wasmtime::{Engine, Instance, Memory, Module, Store, Val};

use crate::runtime::Runtime;

const PAGE: usize = 65_536;
const PAGES: u32 = 8;
/// Addresses behind the stack.
const KEYS: usize = PAGE + 1;
const INDICES: usize = 6 * PAGE + 3;

/// A module of functions that are called one by one.
struct Functions {
    store: Store<()>,
    instance: Instance,
    memory: Memory,
}

impl Functions {
    fn new(module: &[u8]) -> Self {
        let engine = Engine::default();
        let module = Module::new(&engine, module).unwrap();
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        let memory = instance.get_memory(&mut store, "memory").unwrap();
        Self {
            store,
            instance,
            memory,
        }
    }

    /// Writes to memory, calls a function, and returns the memory behind the stack.
    fn call(&mut self, name: &str, data: &[(usize, &[u8])], arguments: &[usize]) -> &[u8] {
        let memory = &mut self.memory.data_mut(&mut self.store)[PAGE..PAGES as usize * PAGE];
        memory.fill(0xa5);
        for (address, bytes) in data {
            memory[address - PAGE..][..bytes.len()].copy_from_slice(bytes);
        }
        self.run(name, arguments);
        &self.memory.data(&self.store)[PAGE..PAGES as usize * PAGE]
    }

    /// Calls a function, and returns its result.
    fn run(&mut self, name: &str, arguments: &[usize]) -> Option<i32> {
        let arguments: Vec<Val> =
            arguments.iter().map(|&value| Val::I32((value as u32).cast_signed())).collect();
        let function = self.instance.get_func(&mut self.store, name).unwrap();
        let mut results = vec![Val::I32(0); function.ty(&self.store).results().len()];
        function.call(&mut self.store, &arguments, &mut results).unwrap();
        results.first().and_then(Val::i32)
    }

    fn memory(&mut self) -> &mut [u8] {
        self.memory.data_mut(&mut self.store)
    }

    fn write(&mut self, address: usize, bytes: &[u8]) {
        self.memory()[address..][..bytes.len()].copy_from_slice(bytes);
    }

    fn read_u32(&mut self, address: usize) -> u32 {
        u32::from_le_bytes(self.memory()[address..][..4].try_into().unwrap())
    }
}

/// The Python module as it is in the artifact.
fn python_module() -> Vec<u8> {
    fs::read(Runtime::builder().environment().artifact_module().unwrap()).unwrap()
}

/// Functions of the Python module, and those that replace them, in memories of the same size, which
/// is at least `pages`.
fn old_and_new(module: &[u8], names: &[&str], pages: u32) -> [Functions; 2] {
    let mut both =
        replaced_functions(module, names, pages).unwrap().map(|module| Functions::new(&module));
    let [old, new] = both.each_mut().map(|functions| functions.memory().len() / PAGE);
    both[0].memory.grow(&mut both[0].store, (new - old) as u64).unwrap();
    both
}

fn random_numbers() -> impl FnMut() -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// Numbers of each kind, as the bits of their type.
struct Kind {
    name: &'static str,
    tag: &'static str,
    size: usize,
    of: fn(f64) -> u64,
    /// Zeros, infinities, numbers too small for all digits, and NaNs; extreme integers.
    special: &'static [u64],
}

const INTEGERS: &[u64] = &[0, 1, u64::MAX, 1 << 63, (1 << 63) - 1, 1 << 31, (1 << 31) - 1];
const KINDS: &[Kind] = &[
    Kind {
        name: "double",
        tag: "npy::floating_point_type<double, (NPY_TYPES)12>",
        size: 8,
        of: f64::to_bits,
        special: &[
            0,
            1 << 63,
            1,
            (1 << 63) + 1,
            0x7ff0 << 48,
            0xfff0 << 48,
            0x7ff8 << 48,
            0xfff8 << 48,
            0x7ff8_0000_0000_0001,
            0x3ff0 << 48,
        ],
    },
    Kind {
        name: "float",
        tag: "npy::floating_point_type<float, (NPY_TYPES)11>",
        size: 4,
        of: |value| (value as f32).to_bits().into(),
        special: &[
            0,
            0x8000_0000,
            1,
            0x8000_0001,
            0x7f80_0000,
            0xff80_0000,
            0x7fc0_0000,
            0xffc0_0000,
            0x7fc0_0001,
            0x3f80_0000,
        ],
    },
    Kind {
        name: "long long",
        tag: "npy::integral_type<long long, (NPY_TYPES)9>",
        size: 8,
        of: |value| (value as i64).cast_unsigned(),
        special: INTEGERS,
    },
    Kind {
        name: "long",
        tag: "npy::integral_type<long, (NPY_TYPES)7>",
        size: 4,
        of: |value| (value as i64).cast_unsigned(),
        special: INTEGERS,
    },
    Kind {
        name: "int",
        tag: "npy::integral_type<int, (NPY_TYPES)5>",
        size: 4,
        of: |value| (value as i64).cast_unsigned(),
        special: INTEGERS,
    },
];

/// Arrays of `count` numbers in many orders.
fn arrays(kind: &Kind, count: usize, random: &mut impl FnMut() -> u64) -> Vec<Vec<u64>> {
    let mut filled = |number: &mut dyn FnMut(usize, u64) -> u64| -> Vec<u64> {
        (0..count).map(|at| number(at, random() >> 16)).collect()
    };
    let of = kind.of;
    let special = |drawn: u64| kind.special[drawn as usize % kind.special.len()];
    let half = count / 2;
    vec![
        filled(&mut |_, drawn| of(drawn as f64 - (1_u64 << 47) as f64)),
        filled(&mut |_, drawn| special(drawn)),
        filled(&mut |_, drawn| {
            if drawn % 3 == 0 {
                special(drawn >> 8)
            } else {
                of((drawn % 1_000) as f64 - 500.0)
            }
        }),
        filled(&mut |_, drawn| of((drawn % 4) as f64)),
        filled(&mut |_, _| of(7.0)),
        filled(&mut |at, _| of(at as f64)),
        filled(&mut |at, _| of(-(at as f64))),
        filled(&mut |at, _| of(at.min(count - at) as f64)),
        filled(&mut |at, drawn| {
            of(if drawn % 50 == 0 {
                drawn as f64
            } else {
                at as f64
            })
        }),
        // Uneven partitions at each step, with a median of three.
        filled(&mut |at, _| {
            of(match at {
                at if at >= half => 2 * (at - half) + 1,
                at if at % 2 == 0 => at,
                at => half + at,
            } as f64)
        }),
    ]
}

/// numpy's sorts give the same bits, for each kind of number, length and order.
#[test]
fn sorts_are_those_of_numpy() {
    let names = KINDS.iter().flat_map(|Kind { name, tag, .. }| {
        [
            format!("int quicksort_<{tag}, {name}, false>({name}*, long)"),
            format!("int aquicksort_<{tag}, {name}, false>({name}*, long*, long)"),
        ]
    });
    let names: Vec<String> = names.collect();
    let wanted: Vec<&str> = names.iter().map(String::as_str).collect();
    let [mut old, mut new] = old_and_new(&python_module(), &wanted, PAGES);
    let mut random = random_numbers();
    let lengths = (0..40).chain([63, 64, 65, 100, 129, 150, 200, 257, 1_000, 5_000, 20_000]);
    let mut exchanged = 0;
    for count in lengths {
        for (kind, names) in KINDS.iter().zip(names.chunks(2)) {
            for array in arrays(kind, count, &mut random) {
                let keys: Vec<u8> = array
                    .iter()
                    .flat_map(|bits| bits.to_le_bytes()[..kind.size].to_vec())
                    .collect();
                let indices: Vec<u8> = (0..count as u32)
                    .flat_map(|at| (at ^ u32::from(count % 2 == 0)).to_le_bytes())
                    .collect();
                let data = [(KEYS, keys.as_slice()), (INDICES, indices.as_slice())];
                for (name, arguments) in
                    [(&names[0], &[KEYS, count][..]), (&names[1], &[KEYS, INDICES, count])]
                {
                    let expected = old.call(name, &data, arguments).to_vec();
                    let found = new.call(name, &data, arguments);
                    assert!(found == expected, "{name}, {count} numbers: {array:x?}");
                    let is_sorted = expected[KEYS - PAGE..][..keys.len()] == keys
                        && expected[INDICES - PAGE..][..indices.len()] == indices;
                    exchanged += u32::from(!is_sorted);
                }
            }
        }
    }
    assert!(exchanged > 2_000, "{exchanged} arrays were not sorted");
}
