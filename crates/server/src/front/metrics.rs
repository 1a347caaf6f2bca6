//! Merges the metrics of all workers: each series gets a label with its account.

use std::collections::BTreeMap;
use std::fmt::Write;

/// A metric family: its metadata and series.
#[derive(Default)]
struct Family {
    about: Vec<String>,
    series: Vec<String>,
}

/// Merges OpenMetrics pages.
#[derive(Default)]
pub(super) struct Pages(BTreeMap<String, Family>);

impl Pages {
    /// Adds the page of an account. Skips lines that do not have the expected form, since a
    /// compromised worker may send anything.
    pub(super) fn add(&mut self, account: &str, page: &str) {
        let account = account.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let mut current = String::new();
        for line in page.lines() {
            if let Some(about) = line.strip_prefix("# ") {
                let mut words = about.split(' ');
                let (Some("HELP" | "TYPE" | "UNIT"), Some(name)) = (words.next(), words.next())
                else {
                    continue;
                };
                if !is_name(name) {
                    continue;
                }
                name.clone_into(&mut current);
                let family = self.0.entry(current.clone()).or_default();
                if family.series.is_empty() && !family.about.iter().any(|known| known == line) {
                    family.about.push(line.to_owned());
                }
            } else if let Some((name, labels, value)) = parts(line)
                && name.starts_with(&*current)
                && let Some(family) = self.0.get_mut(&current)
            {
                let own = format!("account=\"{account}\"");
                let labels = [vec![own.as_str()], labels].concat().join(",");
                family.series.push(format!("{name}{{{labels}}} {value}"));
            }
        }
    }

    /// Returns the merged page, with the number of workers and of those without a page.
    pub(super) fn page(self, workers: usize, silent: usize) -> String {
        let mut text = String::new();
        for (name, family) in self.0.into_iter().filter(|(_, family)| !family.series.is_empty()) {
            for line in family.about.iter().filter(|line| line.split(' ').nth(2) == Some(&name)) {
                let _ = writeln!(text, "{line}");
            }
            for line in family.series {
                let _ = writeln!(text, "{line}");
            }
        }
        let _ = write!(
            text,
            "# HELP belljar_workers Processes of accounts.\n# TYPE belljar_workers gauge\n\
             belljar_workers {workers}\n\
             # HELP belljar_workers_silent Processes of accounts that did not answer.\n\
             # TYPE belljar_workers_silent gauge\nbelljar_workers_silent {silent}\n# EOF\n"
        );
        text
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with("belljar_")
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The name of a series, its labels except the account, which the front sets, and its value.
fn parts(line: &str) -> Option<(&str, Vec<&str>, &str)> {
    let (series, value) = line.rsplit_once(' ')?;
    value.parse::<f64>().ok()?;
    let (name, text) = match series.split_once('{') {
        Some((name, text)) => (name, text.strip_suffix('}')?),
        None => (series, ""),
    };
    let mut labels = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (label, after) = rest.split_at(label(rest)?);
        if !label.starts_with("account=") {
            labels.push(label);
        }
        rest = match after {
            "" => after,
            _ => after.strip_prefix(',')?,
        };
    }
    is_name(name).then_some((name, labels, value))
}

/// The length of the label at the start of a text; `None` if it is invalid.
fn label(text: &str) -> Option<usize> {
    let (name, value) = text.split_once("=\"")?;
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_fine) {
        return None;
    }
    let mut bytes = value.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some(name.len() + 2 + at + 1),
            b'\\' if !matches!(bytes.next()?.1, b'\\' | b'"' | b'n') => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_one_family_are_together() {
        let page = |runs: u32| {
            format!(
                "# HELP belljar_runs Runs.\n# TYPE belljar_runs counter\n\
                 belljar_runs_total{{kind=\"success\"}} {runs}\n# HELP belljar_fuel Fuel.\n\
                 # TYPE belljar_fuel counter\nbelljar_fuel_total 5\n# EOF\n"
            )
        };
        let mut pages = Pages::default();
        pages.add("one", &page(1));
        pages.add("t\"wo", &page(2));
        assert_eq!(
            pages.page(2, 0),
            "# HELP belljar_fuel Fuel.\n# TYPE belljar_fuel counter\n\
             belljar_fuel_total{account=\"one\"} 5\nbelljar_fuel_total{account=\"t\\\"wo\"} 5\n\
             # HELP belljar_runs Runs.\n# TYPE belljar_runs counter\n\
             belljar_runs_total{account=\"one\",kind=\"success\"} 1\n\
             belljar_runs_total{account=\"t\\\"wo\",kind=\"success\"} 2\n\
             # HELP belljar_workers Processes of accounts.\n# TYPE belljar_workers gauge\n\
             belljar_workers 2\n\
             # HELP belljar_workers_silent Processes of accounts that did not answer.\n\
             # TYPE belljar_workers_silent gauge\nbelljar_workers_silent 0\n# EOF\n"
        );
    }

    /// Any text can be the name of an account, also in a worker's own series.
    #[test]
    fn names_of_accounts_are_escaped() {
        for (name, escaped) in [
            ("a@b.example", "a@b.example"),
            ("a,b={c} #1", "a,b={c} #1"),
            ("\"a\\b\nc", "\\\"a\\\\b\\nc"),
            ("wö", "wö"),
        ] {
            let mut pages = Pages::default();
            pages.add(
                name,
                &format!(
                    "# TYPE belljar_account_runs counter\n\
                     belljar_account_runs_total{{kind=\"a,b\",account=\"{escaped}\"}} 1\n"
                ),
            );
            let page = pages.page(1, 0);
            let series =
                format!("belljar_account_runs_total{{account=\"{escaped}\",kind=\"a,b\"}} 1\n");
            assert!(page.contains(&series), "{page}");
        }
    }

    #[test]
    fn a_worker_cannot_speak_for_another() {
        let mut pages = Pages::default();
        pages.add(
            "one",
            "# TYPE belljar_runs counter\nbelljar_runs_total{} 1} 2\nother_total 3\nbelljar_fuel 4\n\
             belljar_runs_total{kind=\"a\\\"} 5\n\
             belljar_runs_total{account=\"two\"} 7\nbelljar_runs_total{kind=\"} 5\nbelljar_runs_total x\n# TYPE other counter\n\
             belljar_runs_total{a=\"\\x\"} 8\nbelljar_runs_total{a=\"b\"c=\"d\"} 8\n\
             belljar_runs_total{a=\"b\"} 1 # {account=\"two\"} 8\n\
             belljar_runs_total{route=\"/v1/runs/{id}\"} 6\n",
        );
        let page = pages.page(1, 0);
        let series: Vec<&str> = page.lines().filter(|line| line.contains("account=")).collect();
        assert_eq!(
            series,
            [
                "belljar_runs_total{account=\"one\"} 7",
                "belljar_runs_total{account=\"one\",route=\"/v1/runs/{id}\"} 6"
            ]
        );
    }
}
