//! The server in this process, with the real engine: its service, its own API, and what all faces share.

mod bodies;
mod connections;
mod counted;
mod e2b;
mod edge;
mod files;
mod hostile;
mod jupyter;
mod kept;
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
mod stopping;
mod support;
mod terminal;
mod unread;
