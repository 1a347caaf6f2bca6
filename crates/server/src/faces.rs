//! The server's interfaces, one module per protocol, each a thin layer over
//! [`service`](crate::service).

pub(crate) mod console;
pub(crate) mod dify;
pub(crate) mod e2b;
pub(crate) mod judge0;
pub(crate) mod jupyter;
pub(crate) mod librechat;
pub mod mcp;
pub(crate) mod openai;
pub(crate) mod piston;
pub(crate) mod process;
pub(crate) mod sandbox_fusion;
pub(crate) mod shape;
pub(crate) mod v1;
