//! Fields of a submission, and which of them a response contains.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::faces::process;

/// Fields of a response by default.
const DEFAULT: [&str; 8] =
    ["token", "time", "memory", "stdout", "stderr", "compile_output", "message", "status"];

/// Further fields of Judge0. They are `null` where a submission has no value.
const OTHERS: [&str; 27] = [
    "source_code",
    "language_id",
    "language",
    "stdin",
    "expected_output",
    "status_id",
    "exit_code",
    "exit_signal",
    "wall_time",
    "created_at",
    "finished_at",
    "number_of_runs",
    "cpu_time_limit",
    "cpu_extra_time",
    "wall_time_limit",
    "memory_limit",
    "stack_limit",
    "max_processes_and_or_threads",
    "enable_per_process_and_thread_time_limit",
    "enable_per_process_and_thread_memory_limit",
    "max_file_size",
    "compiler_options",
    "command_line_arguments",
    "redirect_stderr_to_stdout",
    "callback_url",
    "additional_files",
    "enable_network",
];

/// Fields of later Judge0 versions. `*` omits them, because Judge0's own client fails on them.
const LATER: [&str; 7] = [
    "queued_at",
    "started_at",
    "updated_at",
    "queue_host",
    "execution_host",
    "return_stdout",
    "post_execution_filesystem",
];

/// Fields that are base64 if the client requests it. The first three are base64 in requests, too.
pub(super) const ENCODED: [&str; 6] =
    ["source_code", "stdin", "expected_output", "stdout", "stderr", "compile_output"];

/// The fields of a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fields(BTreeSet<&'static str>);

impl Fields {
    /// Parses a comma-separated list of fields: `*` means all, an empty list the defaults. The
    /// error lists the unknown names.
    pub(super) fn named(list: &str) -> Result<Self, Vec<&str>> {
        let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        // Sets, so that repeated names appear once in the response.
        let (mut known, mut unknown) = (BTreeSet::new(), Vec::new());
        let all = || DEFAULT.into_iter().chain(OTHERS);
        for name in names {
            match all().chain(LATER).find(|field| *field == name) {
                _ if name == "*" => known.extend(all()),
                Some(field) => drop(known.insert(field)),
                None => unknown.push(name),
            }
        }
        if !unknown.is_empty() {
            return Err(unknown);
        }
        if known.is_empty() {
            known.extend(DEFAULT);
        }
        Ok(Self(known))
    }

    /// Selects these fields of a result.
    pub(super) fn of(&self, result: &Map<String, Value>, is_encoded: bool) -> Value {
        let shown = self.0.iter().map(|name| {
            let value = match result.get(*name) {
                Some(Value::String(text)) if is_encoded && ENCODED.contains(name) => {
                    process::to_base64(text.as_bytes()).into()
                }
                value => value.cloned().unwrap_or_default(),
            };
            ((*name).to_owned(), value)
        });
        shown.collect::<Map<_, _>>().into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_those_of_judge0() {
        let fields = |names: &[&'static str]| Ok(Fields(names.iter().copied().collect()));
        assert_eq!(Fields::named("status_id, token"), fields(&["status_id", "token"]));
        for usual in ["", ",", " "] {
            assert_eq!(Fields::named(usual), fields(&DEFAULT));
        }
        for all in ["*", "*,token", "token,*"] {
            let Value::Object(shown) = Fields::named(all).unwrap().of(&Map::new(), true) else {
                panic!("{all}");
            };
            assert_eq!(shown.len(), DEFAULT.len() + OTHERS.len());
        }
        assert_eq!(Fields::named("started_at"), fields(&["started_at"]));
        assert_eq!(Fields::named("stdout,x,*,y"), Err(vec!["x", "y"]));
    }

    #[test]
    fn a_field_that_is_named_often_is_told_once() {
        let list = "stdout,*,".repeat(9_000);
        assert_eq!(Fields::named(&list).unwrap().0.len(), DEFAULT.len() + OTHERS.len());
        assert_eq!(Fields::named(&"stdout,".repeat(9_000)).unwrap().0.len(), 1);
    }

    #[test]
    fn texts_are_encoded_where_that_is_wanted() {
        let Value::Object(result) = json!({"stdout": "a", "token": "a"}) else {
            unreachable!()
        };
        let fields = Fields::named("stdout,token,stdin").unwrap();
        let shown = json!({"stdout": "YQ==", "token": "a", "stdin": null});
        assert_eq!(fields.of(&result, true), shown);
    }
}
