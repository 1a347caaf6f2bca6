//! Programs that never end by themselves, apart from stopping them (`tests/cases`): the reported
//! line, and that they run forever on the host.

use std::thread;
use std::time::Duration;

use belljar::Request;

use crate::host;
use crate::support::{program, programs_in, run};

/// Time limit of each.
const LIMIT: Duration = Duration::from_millis(500);

/// A soft stop reports the line; it is the rule, not the exception.
#[test]
fn a_soft_stop_names_the_line() {
    for (name, lines) in
        [("spin", 3..=4), ("comprehension", 4..=4), ("naps", 5..=5), ("sleep", 4..=4)]
    {
        let request = Request::new(program(&format!("stops/{name}"))).timeout(LIMIT);
        let detail = run(request).outcome.error_detail.unwrap();
        let line = detail.line.unwrap_or_else(|| panic!("{name}: {detail:?}"));
        assert!(lines.contains(&line), "{name}: {detail:?}");
    }
}

/// None of them ends on the host, which does not stop them.
#[test]
fn the_host_goes_on() {
    let names: Vec<String> = programs_in("stops")
        .iter()
        .map(|name| format!("stops/{name}"))
        .filter(|name| host::has_modules_of(name))
        .collect();
    assert!(names.len() >= 20);
    // A few at a time, because each of them takes a whole processor.
    for names in names.chunks(4) {
        let mut running: Vec<_> = names.iter().map(|name| host::start(name)).collect();
        thread::sleep(Duration::from_millis(200));
        for program in &mut running {
            program.goes_on();
        }
    }
}
