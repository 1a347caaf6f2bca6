//! Overhead of a run through the C interface, compared with Rust.
#![expect(unsafe_code, reason = "calls what C calls")]

use std::ffi::CString;
use std::hint::black_box;
use std::ptr;

use belljar::{Request, Runtime};
use belljar_c::outcome::{belljar_outcome_free, belljar_outcome_json};
use belljar_c::runtime::{belljar_run, belljar_runtime_free, belljar_runtime_new};
use criterion::{Criterion, criterion_group, criterion_main};

fn calls(c: &mut Criterion) {
    let mut group = c.benchmark_group("print(1)");
    let runtime = Runtime::builder().environment().build().expect("a runtime").blocking();
    group.bench_function("rust", |b| {
        b.iter(|| {
            let run = runtime.run(Request::new("print(1)").image("data")).expect("a run");
            black_box(serde_json::to_string(&run.outcome).expect("JSON"))
        });
    });
    let request = CString::new(r#"{"code": "print(1)", "image": "data"}"#).expect("text");
    let mut runtime = ptr::null_mut();
    // SAFETY: null options and progress are allowed, and the handle is written to a local.
    assert!(unsafe { belljar_runtime_new(ptr::null(), ptr::null(), &raw mut runtime) }.is_null());
    group.bench_function("c", |b| {
        b.iter(|| {
            let mut outcome = ptr::null_mut();
            // SAFETY: the runtime lives, the request is text, and the handle is freed once.
            unsafe {
                let error = belljar_run(runtime, request.as_ptr(), ptr::null(), &raw mut outcome);
                assert!(error.is_null());
                black_box(belljar_outcome_json(outcome));
                belljar_outcome_free(outcome);
            }
        });
    });
    // SAFETY: it was created above, and is not used after this.
    unsafe { belljar_runtime_free(runtime) };
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);
