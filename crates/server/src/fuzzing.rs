//! Parsers of bytes that others send, as fuzz targets and tests call them. No part of the interface. Of
//! each input the first byte says which of a face's parsers it is for; whether it is what that one reads.

use crate::faces::{e2b, judge0, librechat, mcp, piston, process, v1};
use crate::http;

/// What E2B's clients send: envelopes, hosts, paths, queries, commands, JSON.
pub fn parse_e2b(bytes: &[u8]) -> bool {
    e2b::fuzzing::parse(bytes)
}

/// What clients of MCP send.
pub fn parse_mcp(bytes: &[u8]) -> bool {
    mcp::fuzzing::parse(bytes)
}

/// What every face reads: conditions and ranges, keys in headers and files.
pub fn parse_http(bytes: &[u8]) -> bool {
    http::fuzzing::parse(bytes)
}

/// Bodies that are read piece by piece: lines of a batch, and forms.
pub fn parse_bodies(bytes: &[u8]) -> bool {
    thread_local! {
        static REACTOR: Option<tokio::runtime::Runtime> =
            tokio::runtime::Builder::new_current_thread().build().ok();
    }
    REACTOR.with(|reactor| {
        reactor.as_ref().is_some_and(|reactor| reactor.block_on(v1::fuzzing::parse(bytes)))
    })
}

/// What the clients of the other code runners send: programs, tools, names of files.
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
