//! Tests of the public interface: real programs, real files, a real cache.
//!
//! Guest programs are in `tests/programs`, as Python that also runs on the host's interpreter. An
//! attack is first tried there, where it works, and then in a sandbox, where it must not.

#[cfg(feature = "compile")]
mod beforehand;
mod blocking;
#[cfg(feature = "compile")]
mod bundles;
#[cfg(unix)]
mod cache;
mod caches;
mod calls;
mod case;
mod codecs;
mod contract;
mod determinism;
mod dialect;
mod displays;
mod escape;
mod events;
mod face;
mod fairness;
#[cfg(all(target_os = "linux", feature = "compile"))]
mod filter;
mod forge;
mod host;
mod images;
mod integers;
#[cfg(feature = "compile")]
mod lasting;
mod limits;
#[cfg(target_os = "linux")]
mod linux;
mod metering;
#[cfg(feature = "compile")]
mod native;
#[cfg(all(target_os = "linux", feature = "compile"))]
mod pathless;
mod places;
mod recursion;
mod requests;
mod reuse;
mod seeds;
mod sessions;
mod stops;
mod support;
mod threads;
mod tiers;
#[cfg(target_os = "linux")]
mod together;
mod tools;
mod values;
mod waiting;
