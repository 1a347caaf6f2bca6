//! Usage of keys, summed up from audit logs.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};
use std::time::SystemTime;

use serde::Serialize;

use super::{Event, MAX_LINE, REFUSED, Record, timestamp};

/// The usage of a key of an account.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KeyUsage {
    /// Name of the account.
    pub account: String,
    /// Id of the key. `None` if none was needed, or the work had no request.
    pub key: Option<String>,
    /// Runs that began.
    pub runs: u64,
    /// Runs and other guest work that were refused.
    pub refused: u64,
    /// Wall clock time of the runs, in milliseconds.
    pub wall_ms: f64,
    /// Fuel of the runs and of other guest work.
    pub fuel: u64,
    /// Sessions that were created.
    pub sessions: u64,
    /// Bytes of files that the account had stored at the key's latest run, if they are limited.
    pub stored_bytes: Option<u64>,
    /// Time of the latest record, in RFC 3339.
    pub last: String,
}

/// Sums up the records of audit logs.
#[derive(Clone, Debug, Default)]
pub struct AuditUsage {
    keys: BTreeMap<(String, Option<String>), KeyUsage>,
    lost: BTreeMap<Option<String>, u64>,
    invalid: u64,
}

impl AuditUsage {
    /// Adds the records of a log, of work that began at `since` or later.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read.
    pub fn read(&mut self, mut log: impl BufRead, since: Option<SystemTime>) -> io::Result<()> {
        let since = since.map(timestamp).unwrap_or_default();
        let mut line = Vec::new();
        let mut is_rest = false;
        loop {
            line.clear();
            if log.by_ref().take(MAX_LINE as u64).read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            let is_whole = line.ends_with(b"\n");
            if !is_rest && !line.trim_ascii().is_empty() {
                match serde_json::from_slice::<Record>(&line) {
                    // All times have the same form.
                    Ok(record) if record.time >= since => self.add(record.bounded()),
                    Ok(_) => {}
                    Err(_) => self.invalid = self.invalid.saturating_add(1),
                }
            }
            is_rest = !is_whole;
        }
    }

    fn add(&mut self, record: Record) {
        if record.event == Event::Lost {
            let lost = self.lost.entry(record.account).or_default();
            *lost = lost.saturating_add(record.count.unwrap_or_default());
            return;
        }
        let (Some(account), Event::Run | Event::SessionCreated) = (record.account, record.event)
        else {
            return;
        };
        let usage =
            self.keys.entry((account.clone(), record.key.clone())).or_insert_with(|| KeyUsage {
                account,
                key: record.key,
                ..KeyUsage::default()
            });
        let is_refused = record.status.as_deref() == Some(REFUSED);
        if record.event == Event::SessionCreated {
            usage.sessions += 1;
        } else if is_refused {
            let others = record.count.unwrap_or_default();
            usage.refused = usage.refused.saturating_add(others).saturating_add(1);
        } else if record.work.as_deref() == Some("run") {
            usage.runs += 1;
        }
        // Workers can write any number. JSON has no infinity.
        let wall_ms = record.wall_ms.unwrap_or_default().max(0.0);
        usage.wall_ms = (usage.wall_ms + wall_ms).min(f64::MAX);
        usage.fuel = usage.fuel.saturating_add(record.fuel.unwrap_or_default());
        if record.time >= usage.last {
            usage.last = record.time;
            usage.stored_bytes = record.stored_bytes.or(usage.stored_bytes);
        }
    }

    /// The usage of each key, by account.
    pub fn keys(&self) -> impl Iterator<Item = &KeyUsage> {
        self.keys.values()
    }

    /// Records that the server could not write, of all accounts.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.get(&None).copied().unwrap_or_default()
    }

    /// Records that were lost on their way from an account's worker, by account.
    pub fn lost_of_accounts(&self) -> impl Iterator<Item = (&str, u64)> {
        self.lost.iter().filter_map(|(account, lost)| Some((account.as_deref()?, *lost)))
    }

    /// Lines that are no records.
    #[must_use]
    pub fn invalid(&self) -> u64 {
        self.invalid
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn usage(text: &str, since: Option<SystemTime>) -> AuditUsage {
        let mut usage = AuditUsage::default();
        usage.read(text.as_bytes(), since).unwrap();
        usage
    }

    #[test]
    fn each_key_has_a_sum() {
        let text = r#"
{"time":"2026-01-01T00:00:00.000Z","event":"run","account":"a","key":"k","work":"run","status":"success","wall_ms":2.5,"fuel":7,"stored_bytes":30}
{"time":"2026-01-02T00:00:00.000Z","event":"run","account":"a","key":"k","work":"evaluate","status":"done","fuel":1}
{"time":"2026-01-03T00:00:00.000Z","event":"run","account":"a","key":"l","work":"run","status":"refused","error":"limit"}
{"time":"2026-01-03T00:00:00.000Z","event":"session.created","account":"b","session":"s"}
{"time":"2026-01-03T00:00:00.000Z","event":"key.refused","account":"c"}
{"time":"2026-01-03T00:00:00.000Z","event":"lost","count":3}
{"time":"2026-01-0
"#;
        let all = usage(text, None);
        assert_eq!((all.lost(), all.invalid()), (3, 1));
        let shown: Vec<_> = all
            .keys()
            .map(|key| {
                let id = key.key.as_deref().unwrap_or("-");
                format!("{} {id} {} {} {}", key.account, key.runs, key.refused, key.fuel)
            })
            .collect();
        assert_eq!(shown, ["a k 1 0 8", "a l 0 1 0", "b - 0 0 0"]);
        let first = all.keys().next().unwrap();
        assert_eq!((first.wall_ms, &*first.last), (2.5, "2026-01-02T00:00:00.000Z"));
        assert_eq!(first.stored_bytes, Some(30));
        let since = UNIX_EPOCH + Duration::from_hours(24 * 20_455);
        let shown: Vec<u64> = usage(text, Some(since)).keys().map(|key| key.runs).collect();
        assert_eq!(shown, [0, 0, 0], "since January 2");
    }

    #[test]
    fn a_worker_cannot_falsify_the_usage_of_others() {
        let line = |account: &str, event: &str, rest: &str| {
            format!("{{\"event\":\"{event}\",\"account\":\"{account}\",\"work\":\"run\",{rest}}}\n")
        };
        let max = u64::MAX;
        let text = [
            line("a", "lost", &format!("\"count\":{max}")),
            line("a", "lost", &format!("\"count\":{max}")),
            line("a", "run", &format!("\"wall_ms\":1e308,\"fuel\":{max}")),
            line("a", "run", &format!("\"wall_ms\":1e308,\"fuel\":{max}")),
            line("a", "run", &format!("\"status\":\"refused\",\"count\":{max}")),
            line("b", "run", "\"wall_ms\":-5,\"fuel\":2"),
        ];
        let all = usage(&text.concat(), None);
        assert_eq!((all.lost(), all.invalid()), (0, 0));
        assert_eq!(all.lost_of_accounts().collect::<Vec<_>>(), [("a", max)]);
        let [one, two] = all.keys().collect::<Vec<_>>()[..] else {
            panic!("{all:?}");
        };
        assert_eq!((one.runs, one.refused, one.fuel), (2, max, max));
        assert!(one.wall_ms.is_finite());
        assert_eq!((two.runs, two.wall_ms, two.fuel), (1, 0.0, 2));
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory() {
        let text = format!("{}\n{{\"event\":\"run\",\"account\":\"a\"}}", "x".repeat(5 << 20));
        let all = usage(&text, None);
        assert_eq!((all.invalid(), all.keys().count()), (1, 1));
        assert_eq!(usage("{\"fuel\":1e99}", None).invalid(), 1);
    }
}
