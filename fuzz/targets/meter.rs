//! Modules made from any bytes can be metered, also with rewritten calls and merged functions, and
//! with replaced functions, and provably stop.
//! Damaged ones, and the bytes themselves, are rejected or accepted without a crash.
#![no_main]

#[path = "../random_modules.rs"]
mod random;

use belljar::fuzzing::{
    check_extension, check_metered, merge_functions, meter_extension, meter_module,
    replace_functions, rewrite_calls,
};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for module in [Ok(bytes.to_vec()), merge_functions(bytes)].into_iter().flatten() {
        if let Ok(metered) = meter_module(&module) {
            let _ = check_metered(&metered);
        }
    }
    let module = random::module(random::Choices::new(bytes));
    let metered = meter_module(&module).expect("a module of what is known");
    check_metered(&metered).expect("a metered module looks at its fuel");
    let mut draws = bytes.iter().map(|byte| (u32::from(byte % 8), f64::from(byte / 8)));
    let rewritten =
        rewrite_calls(&module, || draws.next().filter(|&(_, frequency)| frequency > 9.0))
            .expect("a module of what is known");
    let rewritten = merge_functions(&rewritten).expect("what is known stays known");
    let rewritten = meter_module(&rewritten).expect("what is known stays known");
    check_metered(&rewritten).expect("a metered module looks at its fuel");
    let _ = replace_functions(bytes, random::CALLS_THE_ORIGINAL);
    let replaced = replace_functions(&random::named(&module), random::CALLS_THE_ORIGINAL)
        .expect("it has a function of this name");
    let replaced = meter_module(&replaced).expect("what is known stays known");
    check_metered(&replaced).expect("a metered module looks at its fuel");
    let extension = random::extension(random::Choices::new(bytes));
    let extension = meter_extension(&extension).expect("an extension of what is known");
    let [.., low, high, value] = *bytes else {
        return;
    };
    let at = usize::from(u16::from_le_bytes([low, high]));
    for (mut module, is_extension) in [(metered, false), (extension, true)] {
        let at = at % module.len();
        module[at] = value;
        let _ = if is_extension {
            check_extension(&module)
        } else {
            check_metered(&module)
        };
    }
});
