//! Displays: the forms of values, their order, and guests that lie about them.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar::event::{Display, EventKind, event_channel};
use belljar::outcome::ErrorKind;
use belljar::request::{Capture, Echo};
use belljar::{Outcome, Policy, Request};

use crate::support::{check, failed, run, runtime, succeeded};

fn listed(code: &str) -> Request {
    Request::new(code).capture(Capture::default().events(true)).timeout(Duration::from_mins(1))
}

fn kinds(outcome: &Outcome) -> Vec<EventKind> {
    outcome.events.as_ref().unwrap().iter().map(|event| event.kind.clone()).collect()
}

fn displays(outcome: &Outcome) -> Vec<Display> {
    let found = kinds(outcome).into_iter().filter_map(|kind| match kind {
        EventKind::Display(display) | EventKind::Result(display) => Some(display),
        _ => None,
    });
    found.collect()
}

#[track_caller]
fn form<'a>(display: &'a Display, name: &str) -> &'a str {
    display.data.get(name).and_then(|v| v.as_str()).unwrap_or_else(|| panic!("{display:#?}"))
}

/// The events, each in a word or two.
fn words(outcome: &Outcome) -> Vec<String> {
    let word = |kind: &EventKind| match kind {
        EventKind::Stdout { text } => format!("out {}", text.trim_end()),
        EventKind::Stderr { text } => format!("err {}", text.trim_end()),
        EventKind::Display(display) if display.data.contains_key("image/png") => "figure".into(),
        EventKind::Display(display) if display.data.contains_key("text/html") => "table".into(),
        EventKind::Display(display) => format!("display {}", form(display, "text/plain")),
        EventKind::Result(display) => format!("result {}", form(display, "text/plain")),
        EventKind::UpdateDisplay(display) => format!("update {}", form(display, "text/plain")),
        EventKind::Clear { wait } => format!("clear {wait}"),
        _ => String::new(),
    };
    kinds(outcome).iter().map(word).filter(|word| !word.is_empty()).collect()
}

#[test]
fn prints_figures_and_tables_come_in_their_order() {
    let code = "import os, sys, pandas as pd, matplotlib.pyplot as plt\nprint('1')\nplt.plot([1, 2])\n\
                plt.show()\nos.write(1, b'2')\ndisplay(pd.DataFrame({'a': [1]}))\n\
                sys.stderr.write('3')\nfig, _ = plt.subplots()\nfig.show()\nprint('4', end='')\n\
                h = display('5', display_id=True)\nprint('6')\nh.update('7')\nplt.plot([3])\n8";
    let outcome = run(listed(code).echo(Echo::Display)).outcome;
    succeeded(&outcome);
    let expected = [
        "out 1",
        "figure",
        "out 2",
        "table",
        "err 3",
        "figure",
        "out 4",
        "display '5'",
        "out 6",
        "update '7'",
        "result 8",
        "figure",
    ];
    assert_eq!(words(&outcome), expected);
    assert_eq!(outcome.plots.len(), 3, "they are saved as ever");
    assert_eq!(outcome.stdout, "1\n246\n");
}

#[test]
fn a_figure_is_the_picture_that_is_saved() {
    let ran = run(listed("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"));
    let displayed = &displays(&ran.outcome)[0];
    let png = BASE64.decode(form(displayed, "image/png")).unwrap();
    assert_eq!(png, ran.read("plots/plot_1.png").unwrap());
    assert_eq!(displayed.metadata["belljar"]["paths"][0], "plots/plot_1.png");
}

#[test]
fn figures_can_be_displayed_without_files() {
    let capture = Capture::default().events(true).figures(false);
    let code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nplt.plot([2, 1])";
    let outcome = run(listed(code).capture(capture)).outcome;
    assert_eq!(words(&outcome), ["figure", "figure"]);
    assert!(outcome.files.is_empty(), "{:?}", outcome.files);
}

#[test]
fn libraries_show_themselves_as_in_a_notebook() {
    let code = "import sympy, PIL.Image\nx = sympy.symbols('x')\ndisplay(x**2 / 3)\n\
                display(PIL.Image.new('L', (3, 3)))";
    let outcome = run(listed(code)).outcome;
    succeeded(&outcome);
    let found = displays(&outcome);
    assert_eq!(form(&found[0], "text/plain"), "x**2/3");
    assert_eq!(form(&found[0], "text/latex"), "$\\displaystyle \\frac{x^{2}}{3}$");
    assert!(BASE64.decode(form(&found[1], "image/png")).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn where_nobody_takes_them_displays_are_printed() {
    let outcome = run(Request::new("display(1, {'a': 2})\n'last'").echo(Echo::Display)).outcome;
    assert_eq!(outcome.stdout, "1\n{'a': 2}\n'last'\n");
}

#[test]
fn a_session_goes_on_displaying() {
    let session = runtime().blocking().session(belljar::SessionOptions::default()).unwrap();
    session.run(Request::new("h = display(1, display_id='a')")).unwrap();
    let outcome = session.run(listed("h.update(2)\nh").echo(Echo::Display)).unwrap();
    check(&outcome);
    assert_eq!(words(&outcome), ["update 2", "result <DisplayHandle display_id=a>"]);
}

#[test]
fn a_hook_that_never_ends_is_stopped_with_the_run() {
    let code =
        "class A:\n    def _repr_html_(self):\n        while True: pass\nprint('a')\ndisplay(A())";
    let began = Instant::now();
    let outcome = run(listed(code).timeout(Duration::from_millis(400))).outcome;
    failed(&outcome, ErrorKind::Timeout);
    assert_eq!(outcome.error_detail.as_ref().unwrap().line, Some(3));
    assert_eq!(words(&outcome), ["out a"]);
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_hook_that_swallows_the_interrupt_is_stopped_too() {
    let code = "class A:\n    def _repr_html_(self):\n        while True:\n            try:\n                \
                while True: pass\n            except BaseException: pass\ndisplay(A())";
    failed(&run(listed(code).timeout(Duration::from_millis(400))).outcome, ErrorKind::Timeout);
}

#[test]
fn a_hook_that_exits_ends_the_code() {
    let code =
        "class A:\n    def _repr_html_(self): raise SystemExit(3)\ndisplay(A())\nprint('no')";
    let outcome = run(listed(code)).outcome;
    failed(&outcome, ErrorKind::Exit);
    assert!(words(&outcome).is_empty());
}

/// Frames that the runner would never send cost at most the run.
#[test]
fn forged_frames_are_not_believed() {
    let frames = [
        "b'o'",
        "b'o[]'",
        "b'o\\xff'",
        "b'o{\"kind\":\"ended\",\"success\":true}'",
        "b'o{\"kind\":\"display\",\"data\":{\"no type\":1}}'",
        "b'o{\"kind\":\"display\",\"data\":' + b'[' * 1_000",
    ];
    for frame in frames {
        let code = format!(
            "import _host\nprint('a')\ntry: _host.call({frame})\nexcept OSError: print('b')"
        );
        let outcome = run(listed(&code)).outcome;
        failed(&outcome, ErrorKind::Crash);
        assert_eq!(outcome.error_detail.as_ref().unwrap().type_, "ForgedReply", "{frame}");
        assert_eq!(words(&outcome), ["out a\nb"], "{frame}");
    }
}

#[test]
fn frames_that_are_too_large_cost_only_themselves() {
    let code = "import _host\nfor data in (b'[' + b'0,' * 1_000_001 + b'0]', b'\"' + b'x' * (8 << 20) + b'\"'):\n    \
                try: _host.call(b'o{\"kind\":\"display\",\"data\":{\"a/b\":' + data + b'}}')\n    \
                except OSError: print('refused')\ndisplay(1)";
    let outcome = run(listed(code)).outcome;
    succeeded(&outcome);
    assert_eq!(words(&outcome), ["out refused\nrefused", "display 1"]);
}

#[test]
fn a_flood_of_displays_is_bounded_and_reports_itself() {
    let outcome = run(listed("for n in range(20_000): display(n)\nprint('end')")).outcome;
    succeeded(&outcome);
    assert!(
        outcome.stderr.contains("10000 displays were dropped")
            || outcome.stderr.contains("10,000 displays")
    );
    assert_eq!(outcome.stdout, "end\n");
}

#[test]
fn large_displays_wait_for_their_reader() {
    let code = "for n in range(12): display({'a/b': 'x' * 5_000_000}, raw=True)";
    let (watcher, mut events) = event_channel();
    let request = Request::new(code).timeout(Duration::from_mins(1)).watch(watcher);
    let displayed = std::thread::scope(|scope| {
        scope.spawn(move || succeeded(&runtime().blocking().run(request).unwrap().outcome));
        let mut displayed = 0;
        while let Some(event) = events.next_blocking() {
            assert!(!matches!(event.kind, EventKind::Dropped { .. }));
            displayed += usize::from(matches!(event.kind, EventKind::Display(_)));
            std::thread::sleep(Duration::from_millis(20));
        }
        displayed
    });
    assert_eq!(displayed, 12);
}

#[test]
fn code_cannot_hide_its_own_errors() {
    let code = "import _host, sys\n_host.call(b't{}')\nprint('hidden', file=sys.stderr)\n1 / 0";
    let outcome = run(listed(code)).outcome;
    failed(&outcome, ErrorKind::Exception);
    assert!(outcome.stderr.starts_with("hidden\n"), "what it wrote is in the outcome");
    assert!(kinds(&outcome).iter().any(|kind| matches!(kind, EventKind::Error { .. })));
}

#[test]
fn notebooks_find_the_names_that_they_import() {
    let code = "from IPython.display import HTML, Markdown, Image, clear_output, display\n\
                from IPython import get_ipython, display as module\n\
                display(HTML('<b>1</b>'))\nclear_output(wait=True)\n\
                module.display(Markdown('*a*'))\nprint(get_ipython())";
    let outcome = run(listed(code)).outcome;
    succeeded(&outcome);
    let expected =
        ["table", "clear true", "display <IPython.core.display.Markdown object>", "out None"];
    assert_eq!(words(&outcome), expected);
    let missing = runtime().blocking().check("import IPython, nonesuch", &Policy::Open).unwrap();
    assert_eq!(missing.missing_imports, ["nonesuch"]);
}

#[test]
fn figures_carry_what_they_show_where_that_is_asked_for() {
    let code = "import matplotlib.pyplot as plt\nplt.bar(['a', 'b'], [1, 2])\nplt.show()\n\
                plt.plot([1, 2], [3, 4], label='l')";
    let capture = Capture::default().events(true).charts(true);
    let outcome = run(listed(code).capture(capture)).outcome;
    succeeded(&outcome);
    let found = displays(&outcome);
    let chart = |n: usize| &found[n].data["application/vnd.belljar.chart+json"];
    assert_eq!(chart(0)["type"], "bar");
    assert_eq!(chart(0)["elements"][1]["value"], 2.0);
    assert_eq!(chart(1)["type"], "line");
    assert_eq!(chart(1)["elements"][0]["points"], serde_json::json!([[1.0, 3.0], [2.0, 4.0]]));
    assert!(
        !displays(&run(listed(code)).outcome)[0].data.keys().any(|form| form.contains("chart"))
    );
}
