//! Runs the parsers of MCP server messages on the fuzz corpus and on damaged copies of it.

#[path = "../../../fuzz/corpus.rs"]
mod corpus;

use belljar_code_mode::fuzzing::parse;

/// The corpus consists of server messages.
#[test]
fn the_corpus_is_accepted() {
    corpus::is_accepted("code_mode", parse);
}

#[test]
fn damaged_messages_cause_no_panic() {
    corpus::survives_damage("code_mode", parse);
}
