//! Merges the metrics of all workers: each series gets a label with its account.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Suffixes of series by the type of their family.
const SUFFIXES: [(&str, &str); 5] = [
    ("", "gauge"),
    ("_total", "counter"),
    ("_bucket", "histogram"),
    ("_count", "histogram"),
    ("_sum", "histogram"),
];
/// Maximum number of labels of a series.
const MAX_LABELS: usize = 8;

/// A metric family: its metadata and series.
#[derive(Default)]
struct Family {
    kind: String,
    about: Vec<String>,
    series: Vec<String>,
}

/// Merges OpenMetrics pages.
pub(super) struct Pages(BTreeMap<String, Family>);

impl Pages {
    /// Takes the families, but no series, from `page`. Workers are of the same program as the front
    /// and have the same ones.
    pub(super) fn with_families_of(page: &str) -> Self {
        let mut families = BTreeMap::<String, Family>::new();
        for line in page.lines() {
            let mut words = line.splitn(4, ' ');
            if let (Some("#"), Some(what), Some(name), Some(text)) =
                (words.next(), words.next(), words.next(), words.next())
            {
                let family = families.entry(name.to_owned()).or_default();
                if what == "TYPE" {
                    text.clone_into(&mut family.kind);
                }
                family.about.push(line.to_owned());
            }
        }
        Self(families)
    }

    /// Adds the series of an account. Skips lines that do not have the expected form, since a
    /// compromised worker may send anything.
    pub(super) fn add(&mut self, account: &str, page: &str) {
        let account = account.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        for line in page.lines() {
            if let Some((name, labels, value)) = parts(line)
                && let Some(family) = self.family(name)
            {
                let own = format!("account=\"{account}\"");
                let labels = [vec![own.as_str()], labels].concat().join(",");
                family.series.push(format!("{name}{{{labels}}} {value}"));
            }
        }
    }

    /// The family of a series.
    fn family(&mut self, series: &str) -> Option<&mut Family> {
        let name = SUFFIXES.into_iter().find_map(|(suffix, kind)| {
            let name = series.strip_suffix(suffix)?;
            (self.0.get(name)?.kind == kind).then_some(name)
        })?;
        self.0.get_mut(name)
    }

    /// Returns the merged page, with the number of workers and of those without a page.
    pub(super) fn page(self, workers: usize, silent: usize) -> String {
        let mut text = String::new();
        for family in self.0.into_values().filter(|family| !family.series.is_empty()) {
            for line in family.about.iter().chain(&family.series) {
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

/// The name of a series, its labels except the account, which the front sets, and its value.
fn parts(line: &str) -> Option<(&str, Vec<&str>, &str)> {
    let (series, value) = line.rsplit_once(' ')?;
    if !value.parse::<f64>().ok()?.is_finite() || line.contains(|one: char| one.is_ascii_control())
    {
        return None;
    }
    let (name, text) = match series.split_once('{') {
        Some((name, text)) => (name, text.strip_suffix('}')?),
        None => (series, ""),
    };
    let (mut labels, mut names) = (Vec::new(), Vec::new());
    let mut rest = text;
    while !rest.is_empty() {
        let (label, after) = rest.split_at(label(rest)?);
        let (name, _) = label.split_once('=')?;
        if names.contains(&name) || names.len() == MAX_LABELS {
            return None;
        }
        names.push(name);
        if name != "account" {
            labels.push(label);
        }
        rest = match after {
            "" => after,
            _ => after.strip_prefix(',')?,
        };
    }
    Some((name, labels, value))
}

/// The length of the label at the start of a text; `None` if it is invalid.
fn label(text: &str) -> Option<usize> {
    let (name, value) = text.split_once("=\"")?;
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    // Names with two underscores have a meaning for Prometheus.
    let is_reserved =
        name.starts_with(|first: char| first.is_ascii_digit()) || name.starts_with("__");
    if name.is_empty() || is_reserved || !name.bytes().all(is_fine) {
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

    const OWN: &str = "# HELP belljar_runs Runs.\n# TYPE belljar_runs counter\n# EOF\n";

    #[test]
    fn series_of_one_family_are_together() {
        let page = |runs: u32| {
            format!(
                "# HELP belljar_runs Runs.\n# TYPE belljar_runs counter\n\
                 belljar_runs_total{{kind=\"success\"}} {runs}\n# HELP belljar_fuel Fuel.\n\
                 # TYPE belljar_fuel counter\nbelljar_fuel_total 5\n# EOF\n"
            )
        };
        let mut pages = Pages::with_families_of(&page(0));
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
            let mut pages = Pages::with_families_of("# TYPE belljar_account_runs counter");
            let series =
                format!("belljar_account_runs_total{{kind=\"a,b\",account=\"{escaped}\"}} 1\n");
            pages.add(name, &series);
            let page = pages.page(1, 0);
            let series =
                format!("belljar_account_runs_total{{account=\"{escaped}\",kind=\"a,b\"}} 1\n");
            assert!(page.contains(&series), "{page}");
        }
    }

    #[test]
    fn a_worker_cannot_speak_for_another() {
        let mut pages = Pages::with_families_of(OWN);
        pages.add(
            "one",
            "belljar_runs_total{} 1} 2\nother_total 3\nbelljar_fuel 4\nbelljar_runs 4\n\
             belljar_runs_total{kind=\"a\\\"} 5\nbelljar_workers 1\n\
             belljar_runs_total{account=\"two\"} 7\nbelljar_runs_total{kind=\"} 5\n\
             belljar_runs_total x\n\
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

    /// Prometheus discards the whole page for one line in another form.
    #[test]
    fn a_worker_cannot_spoil_the_page() {
        let mut pages = Pages::with_families_of(OWN);
        for line in [
            "# TYPE belljar_runs nonsense",
            "# TYPE belljar_runs gauge",
            "# HELP belljar_runs",
            "# UNIT belljar_runs seconds",
            "# TYPE belljar_other counter",
            "belljar_other_total 1",
            "belljar_runs_total{1a=\"b\"} 1",
            "belljar_runs_total{a=\"b\",a=\"c\"} 1",
            "belljar_runs_total{account=\"b\",account=\"c\"} 1",
            "belljar_runs_total{__name__=\"up\"} 1",
            "belljar_runs_total{a=\"b\0\"} 1",
            "belljar_runs_total +nan",
            "belljar_runs_total 1e999",
            "# EOF",
        ] {
            pages.add("one", line);
        }
        let labels: Vec<String> = (0..=MAX_LABELS).map(|n| format!("l{n}=\"\"")).collect();
        pages.add("one", &format!("belljar_runs_total{{{}}} 1", labels.join(",")));
        let without = Pages::with_families_of(OWN).page(1, 0);
        assert_eq!(pages.page(1, 0), without);
    }
}
