//! A typical use of sessions: an agent's analysis in ten steps, with everything that can go wrong.

use std::time::Duration;

use belljar::outcome::ErrorKind;
use belljar::{Request, SessionOptions};

use super::{block_on, interrupted, out, report, restarted, run, session_on};
use crate::support::{failed, paths, runtime, succeeded};

#[test]
fn ten_steps_with_a_crash_a_timeout_and_an_interrupt_end_in_the_right_answer() {
    let rows: Vec<String> = (0..240)
        .map(|n| format!("2026-{:02}-01,{},{}", n % 12 + 1, ["north", "south", "west"][n % 3], n))
        .collect();
    let csv = format!("month,region,amount\n{}\n,,\n", rows.join("\n"));
    let expected: usize = (0..240).filter(|n| n % 3 == 1).sum();
    block_on(async {
        let session = session_on(runtime(), SessionOptions::new().image("data")).await;
        let load = Request::new("import pandas as pd\ndf = pd.read_csv('sales.csv')\ndf.shape");
        let first = run(&session, load.file("sales.csv", csv)).await;
        succeeded(&first);
        assert_eq!(first.stdout, "(241, 3)\n");
        assert_eq!(first.dataframes[0].name, "df");

        let second = run(&session, Request::new("df.Amount.sum()")).await;
        assert!(second.error.unwrap().starts_with("AttributeError"));

        let slow = Request::new("clean = df.dropna()\nwhile len(clean): pass");
        let third = run(&session, slow.timeout(Duration::from_secs(2))).await;
        failed(&third, ErrorKind::Timeout);
        assert!(!report(&third).interpreter_restarted);

        assert_eq!(out(&session, "len(clean)").await, "240\n");

        let spoil = "clean['amount'] = 0\nclean.to_csv('sales.csv')\nimport os\nos._exit(9)";
        restarted(&run(&session, Request::new(spoil)).await, ErrorKind::Crash, "ProcessExit");

        assert_eq!(out(&session, "int(clean.amount.sum())").await, "28680\n");

        let endless = "by = clean.groupby('region').amount.sum()\nprint('ready')\nwhile True: pass";
        failed(&interrupted(&session, endless).await, ErrorKind::Interrupted);

        let plot = "import matplotlib.pyplot as plt\nby.plot.bar()\nplt.show()";
        let eighth = run(&session, Request::new(plot)).await;
        succeeded(&eighth);
        assert_eq!(paths(&eighth), ["plots/plot_1.png"]);
        assert!(session.read("plots/plot_1.png").await.unwrap().starts_with(b"\x89PNG"));

        assert!(session.suspend().await);
        let ninth = run(&session, Request::new("len(pd.read_csv('sales.csv'))")).await;
        assert_eq!(ninth.stdout, "241\n");

        let tenth = run(&session, Request::new("result = int(by['south'])")).await;
        assert_eq!(tenth.result, expected);
        assert_eq!(report(&tenth).execution, 10);
        let failures: Vec<_> = session
            .history()
            .await
            .unwrap()
            .iter()
            .filter(|e| !e.success)
            .map(|e| e.execution)
            .collect();
        assert_eq!(failures, [2, 3, 5, 7]);
        session.close();
    });
}

/// An unchanged table is not printed again; the outcome is always up to date.
#[test]
fn tables_are_told_as_they_are_whichever_way_they_were_changed() {
    block_on(async {
        let session = session_on(runtime(), SessionOptions::new().image("data")).await;
        let told = async |code: &str| {
            let outcome = run(&session, Request::new(code)).await;
            succeeded(&outcome);
            let tables = outcome.dataframes.iter();
            let found: Vec<_> = tables.map(|one| (one.name.clone(), one.repr.clone())).collect();
            let printed =
                run(&session, Request::new("print(repr(df), repr(col), sep='|', end='')"));
            let printed = printed.await.stdout;
            let (df, col) = printed.split_once('|').unwrap();
            let of = |name: &str| &found.iter().find(|(own, _)| own == name).unwrap().1;
            assert_eq!((of("df").as_str(), of("col").as_str()), (df, col), "{code}");
            found
        };
        let make = "import numpy as np, pandas as pd\n\
                    df = pd.DataFrame({'a': np.arange(1000.0), 'b': ['x', 'y'] * 500})\n\
                    other, rows, col = df, [df], df['a'].copy()";
        let first = told(make).await;
        assert_eq!(first.len(), 3);
        assert_eq!(told("x = 1").await, first);
        for change in [
            "other.iloc[0, 0] = -5",
            "rows[0].loc[999, 'b'] = 'last'",
            "array = df._mgr.blocks[0].values\narray.flags.writeable = True\narray[0, 1] = 7",
            "pd.set_option('display.precision', 2)\ncol[0] = 1 / 3",
            "def f(t):\n    t['c'] = 1\nf(*rows)",
            "df.index = df.index + 1",
            "del rows[0], other\ndf = df[::-1]",
        ] {
            let before = told("x = 2").await;
            assert_ne!(told(change).await, before, "{change}");
        }
        let fork = session.fork().await.unwrap();
        let outcome = run(&fork, Request::new("df = df.head(1)")).await;
        assert_eq!(outcome.dataframes[0].repr.lines().count(), 2);
        fork.close();
        session.close();
    });
}
