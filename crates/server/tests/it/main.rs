//! Tests of the server in this process with the real engine: service, its own API, and common
//! layers.

mod accounting;
mod bodies;
mod caches;
mod connections;
mod e2b;
mod edge;
mod files;
mod hostile;
mod jupyter;
mod memory;
mod openapi;
mod owners;
mod parsers;
mod place;
mod proxies;
mod running;
mod runs;
mod saved;
mod sessions;
mod shims;
mod slow_clients;
mod stopping;
mod support;
mod terminal;
