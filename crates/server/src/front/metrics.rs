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
                // The worker's own label, if any, is replaced.
                let own = labels.split(',').filter(|label| !label.starts_with("account="));
                let labels = own.collect::<Vec<_>>().join(",");
                let comma = if labels.is_empty() { "" } else { "," };
                let series = format!("{name}{{account=\"{account}\"{comma}{labels}}} {value}");
                family.series.push(series);
            }
        }
    }

    /// Returns the merged page, with the number of workers.
    pub(super) fn page(self, workers: usize) -> String {
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
             belljar_workers {workers}\n# EOF\n"
        );
        text
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with("belljar_")
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The name, labels and value of a series.
fn parts(line: &str) -> Option<(&str, &str, &str)> {
    let (series, value) = line.rsplit_once(' ')?;
    value.parse::<f64>().ok()?;
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (series, ""),
    };
    let is_fine = labels.is_empty() || labels.split(',').all(is_label);
    (is_name(name) && is_fine).then_some((name, labels, value))
}

/// Whether this is a valid label.
fn is_label(label: &str) -> bool {
    let is_plain = |text: &str, others: &[u8]| {
        let mut bytes = text.bytes();
        bytes.all(|byte| byte.is_ascii_alphanumeric() || others.contains(&byte))
    };
    label.split_once("=\"").is_some_and(|(name, value)| {
        let value = value.strip_suffix('"');
        !name.is_empty()
            && is_plain(name, b"_")
            && value.is_some_and(|value| is_plain(value, b"_.+- /{}*:"))
    })
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
            pages.page(2),
            "# HELP belljar_fuel Fuel.\n# TYPE belljar_fuel counter\n\
             belljar_fuel_total{account=\"one\"} 5\nbelljar_fuel_total{account=\"t\\\"wo\"} 5\n\
             # HELP belljar_runs Runs.\n# TYPE belljar_runs counter\n\
             belljar_runs_total{account=\"one\",kind=\"success\"} 1\n\
             belljar_runs_total{account=\"t\\\"wo\",kind=\"success\"} 2\n\
             # HELP belljar_workers Processes of accounts.\n# TYPE belljar_workers gauge\n\
             belljar_workers 2\n# EOF\n"
        );
    }

    #[test]
    fn a_worker_cannot_speak_for_another() {
        let mut pages = Pages::default();
        pages.add(
            "one",
            "# TYPE belljar_runs counter\nbelljar_runs_total{} 1} 2\nother_total 3\nbelljar_fuel 4\n\
             belljar_runs_total{kind=\"a\\\"} 5\n\
             belljar_runs_total{account=\"two\"} 7\nbelljar_runs_total{kind=\"} 5\nbelljar_runs_total x\n# TYPE other counter\n\
             belljar_runs_total{route=\"/v1/runs/{id}\"} 6\n",
        );
        let page = pages.page(1);
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
