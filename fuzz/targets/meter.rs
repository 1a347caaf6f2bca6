//! Modules made from any bytes can be metered, and provably stop. Damaged ones, and the bytes
//! themselves, are rejected or accepted without a crash.
#![no_main]

#[path = "../random_modules.rs"]
mod random;

use belljar::fuzzing::{check_metered, meter_module};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(metered) = meter_module(bytes) {
        let _ = check_metered(&metered);
    }
    let module = random::module(random::Choices::new(bytes));
    let mut metered = meter_module(&module).expect("a module of what is known");
    check_metered(&metered).expect("a metered module looks at its fuel");
    let [.., low, high, value] = *bytes else {
        return;
    };
    let at = usize::from(u16::from_le_bytes([low, high])) % metered.len();
    metered[at] = value;
    let _ = check_metered(&metered);
});
