//! Parsers of untrusted bytes, for fuzz targets and tests. Not part of the public API. The first
//! byte of each input selects the parser. Returns whether the input is valid.

use crate::faces::{e2b, judge0, librechat, mcp, piston, process, v1};
use crate::http;

/// Input of E2B's clients: envelopes, hosts, paths, queries, commands, JSON.
pub fn parse_e2b(bytes: &[u8]) -> bool {
    e2b::fuzzing::parse(bytes)
}

/// Input of MCP clients.
pub fn parse_mcp(bytes: &[u8]) -> bool {
    mcp::fuzzing::parse(bytes)
}

/// Input to all faces: preconditions, ranges, and keys in headers and files.
pub fn parse_http(bytes: &[u8]) -> bool {
    http::fuzzing::parse(bytes)
}

/// Streamed bodies: lines of a batch, and forms.
pub fn parse_bodies(bytes: &[u8]) -> bool {
    thread_local! {
        static REACTOR: Option<tokio::runtime::Runtime> =
            tokio::runtime::Builder::new_current_thread().build().ok();
    }
    REACTOR.with(|reactor| {
        reactor.as_ref().is_some_and(|reactor| reactor.block_on(v1::fuzzing::parse(bytes)))
    })
}

/// Input of other code runners' clients: programs, tools, file names.
pub fn parse_runners(bytes: &[u8]) -> bool {
    let Some((form, bytes)) = bytes.split_first() else {
        return false;
    };
    let body = serde_json::from_slice(bytes);
    match form % 4 {
        0 => body.is_ok_and(|body| piston::parse(&body)),
        1 => body.is_ok_and(judge0::parse),
        2 => body.is_ok_and(librechat::parse),
        _ => {
            let name = String::from_utf8_lossy(bytes);
            process::from_base64(&name);
            process::workspace_path(&name, &["/mnt/data", "/workspace"]).is_some_and(|path| {
                let is_inside = |part: &str| !matches!(part, "" | "." | "..");
                assert!(path.split('/').all(is_inside) && !path.contains('\0'), "{path:?}");
                true
            })
        }
    }
}
