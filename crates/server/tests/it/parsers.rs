//! All parsers of client input reject damaged input without panicking.

#[path = "../../../../fuzz/corpus.rs"]
mod corpus;

use belljar_server::fuzzing;

type Parser = fn(&[u8]) -> bool;

const PARSERS: [(&str, Parser); 5] = [
    ("server_bodies", fuzzing::parse_bodies),
    ("server_e2b", fuzzing::parse_e2b),
    ("server_http", fuzzing::parse_http),
    ("server_mcp", fuzzing::parse_mcp),
    ("server_runners", fuzzing::parse_runners),
];

/// The corpora are valid client input.
#[test]
fn the_corpora_are_taken() {
    for (target, parse) in PARSERS {
        corpus::is_accepted(target, parse);
    }
}

#[test]
fn damage_is_survived() {
    for (target, parse) in PARSERS {
        corpus::survives_damage(target, parse);
    }
}
