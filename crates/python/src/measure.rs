//! Calls of the engine timed in Rust, for comparison with calls from Python in
//! `benches/promises.py`. Built only with the feature `measure`.

use std::time::Instant;

use belljar::{Error, Request};
use pyo3::prelude::*;

use crate::error::Failure;
use crate::runtime::Runtime;

/// Seconds of each of this many sequential calls.
#[pyfunction]
pub(crate) fn measure_calls(
    py: Python<'_>,
    runtime: &Bound<'_, Runtime>,
    code: &str,
    image: &str,
    count: usize,
) -> PyResult<Vec<f64>> {
    let held = runtime.get();
    let calls = || {
        let call = || {
            let began = Instant::now();
            held.reactor.handle().block_on(held.runtime.run(request(code, image)))?;
            Ok::<_, Error>(began.elapsed().as_secs_f64())
        };
        (0..count).map(|_| call()).collect::<Result<Vec<_>, _>>()
    };
    Ok(py.detach(calls).map_err(Failure::from)?)
}

/// Seconds of this many threads with this many calls each.
#[pyfunction]
pub(crate) fn measure_threads(
    py: Python<'_>,
    runtime: &Bound<'_, Runtime>,
    code: &str,
    image: &str,
    threads: usize,
    each: usize,
) -> PyResult<f64> {
    let held = runtime.get();
    let work = || {
        let began = Instant::now();
        std::thread::scope(|scope| {
            let call = || {
                for _ in 0..each {
                    held.reactor.handle().block_on(held.runtime.run(request(code, image)))?;
                }
                Ok::<_, Error>(())
            };
            let started: Vec<_> = (0..threads).map(|_| scope.spawn(call)).collect();
            started.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
        })?;
        Ok::<_, Error>(began.elapsed().as_secs_f64())
    };
    Ok(py.detach(work).map_err(Failure::from)?)
}

/// Seconds of this many concurrent tasks with one call each.
#[pyfunction]
pub(crate) fn measure_tasks(
    py: Python<'_>,
    runtime: &Bound<'_, Runtime>,
    code: &str,
    image: &str,
    tasks: usize,
) -> PyResult<f64> {
    let held = runtime.get();
    let work = || {
        let began = Instant::now();
        held.reactor.handle().block_on(async {
            let mut set = tokio::task::JoinSet::new();
            for _ in 0..tasks {
                let (runtime, request) = (held.runtime.clone(), request(code, image));
                set.spawn(async move { runtime.run(request).await });
            }
            // Kept until all have ended, as `asyncio.gather` does.
            let mut runs = Vec::with_capacity(tasks);
            while let Some(Ok(ended)) = set.join_next().await {
                runs.push(ended?);
            }
            Ok::<_, Error>(())
        })?;
        Ok::<_, Error>(began.elapsed().as_secs_f64())
    };
    Ok(py.detach(work).map_err(Failure::from)?)
}

fn request(code: &str, image: &str) -> Request {
    Request::new(code).image(image)
}
