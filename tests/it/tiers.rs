//! Partial code: a run has the code that it needs, missing code is compiled, and the results are
//! the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use belljar::event::{OutputWatcher, Stream};
use belljar::outcome::ErrorKind;
use belljar::progress::{Progress, Stage};
use belljar::request::Deterministic;
use belljar::setup::Tier;
use belljar::{Policy, Request, Runtime, SessionOptions, doctor};
use tempfile::TempDir;

use crate::caches::{self, shared};
use crate::support::{program, run_on, succeeded};

/// A cache with everything except native code, and code for `core`, compiled once for all tests
/// here and kept for the next time.
static CORE: LazyLock<(PathBuf, Runtime)> = LazyLock::new(|| {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tiers");
    caches::runtime().images().prepare("data").unwrap();
    without_code(&dir);
    let runtime = Runtime::builder().environment().cache(&dir).build().unwrap();
    runtime.compile(Tier::Core).unwrap();
    assert_eq!(runtime.tier(), Some(Tier::Core));
    (dir, runtime)
});

/// Makes a copy of the shared cache without native code.
pub fn without_code(to: &Path) {
    for name in fs::read_dir(shared()).unwrap().map(|entry| entry.unwrap().file_name()) {
        if name != "code" && name != "locks" {
            link(&shared().join(&name), &to.join(&name));
        }
    }
}

/// Gives files a second name, or copies them if that is not possible.
fn link(from: &Path, to: &Path) {
    if !from.is_dir() {
        if !to.exists() && fs::hard_link(from, to).is_err() {
            fs::copy(from, to).unwrap();
        }
        return;
    }
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        link(&from.join(&name), &to.join(&name));
    }
}

/// A runtime with the code for `core`, on a cache with all code.
fn grows() -> (TempDir, Runtime) {
    let dir = tempfile::tempdir().unwrap();
    link(&CORE.0, dir.path());
    let runtime = Runtime::builder().environment().cache(dir.path()).build().unwrap();
    runtime.compile(Tier::Core).unwrap();
    assert_eq!(runtime.tier(), Some(Tier::Core));
    link(&shared().join("code"), &dir.path().join("code"));
    (dir, runtime)
}

/// Records log messages.
struct Sees;

impl OutputWatcher for Sees {
    fn write(&self, _: Stream, _: &[u8]) {}
}

#[test]
fn the_code_for_core_is_small_and_all_that_core_needs() {
    let (cache, runtime) = &*CORE;
    let code = fs::read_dir(cache.join("code")).unwrap().map(|entry| entry.unwrap().path());
    let code: Vec<_> = code.filter(|path| path.extension().is_some_and(|e| e == "cwasm")).collect();
    assert!(!code.is_empty());
    for path in code {
        assert!(path.to_string_lossy().ends_with("-core.cwasm"), "{path:?}");
        let bytes = fs::metadata(&path).unwrap().len();
        assert!((10_000_000..30_000_000).contains(&bytes), "{path:?}: {bytes} bytes");
    }
    assert_eq!(run_on(runtime, Request::new("print(1)").image("core")).outcome.stdout, "1\n");
    let findings = doctor::examine(Some(cache.clone()));
    assert!(findings.iter().any(|f| f.what == "code core" && f.detail.contains("MiB")));
}

/// Counts how often a runtime waits for another process.
#[derive(Default)]
struct Waits(AtomicUsize);

impl Progress for Waits {
    fn begin(&self, stage: Stage, _: &str) {
        self.0.fetch_add(usize::from(stage == Stage::Waiting), Ordering::SeqCst);
    }

    fn end(&self, _: Stage) {}
}

/// Another process compiles the missing code, which takes minutes: one run waits for it on a
/// thread, and the others for that run.
#[test]
fn runs_that_wait_for_code_take_one_thread() {
    let dir = tempfile::tempdir().unwrap();
    without_code(dir.path());
    fs::create_dir(dir.path().join("locks")).unwrap();
    let lock = fs::File::create(dir.path().join("locks/code-core.lock")).unwrap();
    lock.lock().unwrap();
    let waits = Arc::new(Waits::default());
    let progress = Arc::clone(&waits) as Arc<dyn Progress>;
    let runtime =
        Runtime::builder().environment().cache(dir.path()).progress(progress).build().unwrap();
    let threads = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(2)
        .enable_all()
        .build()
        .unwrap();
    threads.block_on(async {
        let start = || {
            let runtime = runtime.clone();
            let request = Request::new("print(1)").image("core").timeout(Duration::from_mins(1));
            tokio::spawn(async move { runtime.run(request).await.unwrap().outcome.stdout })
        };
        // One of them is cancelled: its compilation continues.
        let given_up = start();
        while waits.0.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        given_up.abort();
        let runs: Vec<_> = (0..6).map(|_| start()).collect();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let other = tokio::task::spawn_blocking(|| 7);
        let other = tokio::time::timeout(Duration::from_mins(1), other).await;
        assert_eq!(other.expect("no thread is left").unwrap(), 7);
        assert_eq!(waits.0.load(Ordering::SeqCst), 1);
        // It has finished.
        link(&CORE.0.join("code"), &dir.path().join("code"));
        drop(lock);
        for run in runs {
            assert_eq!(run.await.unwrap(), "1\n");
        }
    });
}

/// The result of a program, without the time that it takes.
fn done(runtime: &Runtime, code: &str) -> (serde_json::Value, Option<u64>) {
    let request = Request::new(code).image("core").deterministic(Deterministic::default().seed(7));
    let outcome = run_on(runtime, request).outcome;
    let fuel = outcome.usage.fuel;
    (serde_json::to_value(&outcome).unwrap(), Some(fuel))
}

#[test]
fn the_same_bytes_and_the_same_fuel_on_every_tier() {
    let programs = [
        EVERYTHING.to_owned(),
        "x = sorted((hash(str(n)) % 1000 for n in range(5000)), key=lambda n: -n)\nx[:5]"
            .to_owned(),
        "def f(n): return n if n < 2 else f(n - 1) + f(n - 2)\nf(18)".to_owned(),
        "1/0".to_owned(),
        program("determinism/files"),
    ];
    let tier = CORE.1.tier();
    for code in programs {
        let (core, all) = (done(&CORE.1, &code), done(caches::runtime(), &code));
        assert_eq!(core, all, "{code}");
    }
    // None of it made the runtime load more code.
    assert_eq!((tier, CORE.1.tier()), (Some(Tier::Core), Some(Tier::Core)));
}

/// Parts of the standard library with compiled code.
const EVERYTHING: &str = r#"
import array, ast, asyncio, base64, binascii, bisect, bz2, cmath, collections, copy, csv, ctypes.util
import datetime, decimal, difflib, email.message, fractions, functools, hashlib, heapq, hmac, html, io
import itertools, json, lzma, math, operator, os, pickle, pprint, queue, random, re, select, sqlite3
import statistics, string, struct, sys, tempfile, textwrap, time, tokenize, typing, unicodedata, uuid
import xml.etree.ElementTree as ET, zipfile, zlib, zoneinfo
data = b"belljar " * 1000
for codec in (bz2, lzma, zlib):
    assert codec.decompress(codec.compress(data)) == data
for name in sorted(hashlib.algorithms_guaranteed - {"shake_128", "shake_256"}):
    print(name, hashlib.new(name, data).hexdigest()[:8])
print(hmac.new(b"k", data, "sha256").hexdigest()[:8])
db = sqlite3.connect(":memory:")
db.execute("create virtual table t using fts5(a)")
db.executemany("insert into t values (?)", [("one two",), ("two three",)])
print(db.execute("select count(*), json_object('a', 1) from t where t match 'two'").fetchall())
print(ET.tostring(ET.fromstring("<a><b c='1'>x</b></a>")), decimal.Decimal(1) / 7, fractions.Fraction(3, 9))
print(re.findall(r"(\w)\w+(?=\s)", "some words here "), unicodedata.name("é"), struct.pack("<dq", 1.5, 2))
print("日本語".encode("shift_jis"), "中文".encode("gb18030"), "한국".encode("euc_kr"))
print(pickle.loads(pickle.dumps({"a": [1, 2.5, (3j,)]})), json.loads(json.dumps({"a": [None, 1e9]})))
print(statistics.NormalDist(0, 1).cdf(1), math.comb(50, 20), cmath.sqrt(-2), random.Random(3).random())
print(datetime.datetime(2020, 2, 29, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")).isoformat())
with zipfile.ZipFile("a.zip", "w", zipfile.ZIP_DEFLATED) as z: z.writestr("x", data)
async def f(): await asyncio.sleep(0); return list(heapq.merge([1, 3], [2]))
print(asyncio.run(f()), ast.unparse(ast.parse("a=1+ 2")), csv.list_dialects(), time.strftime("%Y", time.gmtime(0)))
import yaml, dateutil.parser, jinja2
print(yaml.safe_load("a: [1, 2]"), jinja2.Template("{{ 1 + 1 }}").render())
"#;

/// Imports a module whose name does not appear in the code.
const UNFORESEEN: &str = "name = 'num' + 'py'\nnumpy = __import__(name)\n";

#[test]
fn a_run_that_lacks_code_is_begun_again_on_more() {
    let (_cache, runtime) = grows();
    let code = format!(
        "print('once')\nprint(open('in.txt').read(), end='')\nopen('out.txt', 'a').write('x')\n\
         {UNFORESEEN}print(numpy.arange(4).sum(), open('out.txt').read())"
    );
    let request = Request::new(code).image("core").file("in.txt", "given\n");
    let outcome = run_on(&runtime, request).outcome;
    succeeded(&outcome);
    assert_eq!(outcome.stdout, "once\ngiven\n6 x\n");
    assert_eq!(runtime.tier(), Some(Tier::All));
}

#[test]
fn imports_in_the_text_are_seen_beforehand() {
    let (_cache, runtime) = grows();
    let code = "import numpy as np\nprint(np.arange(4).sum())";
    let request = Request::new(code).image("core").watch(Arc::new(Sees));
    let outcome = run_on(&runtime, request).outcome;
    assert_eq!(outcome.stdout, "6\n", "{outcome:#?}");
}

#[test]
fn a_session_that_lacks_code_goes_on_from_the_same_state() {
    let (_cache, runtime) = grows();
    let session = runtime.blocking().session(SessionOptions::default().image("core")).unwrap();
    succeeded(&session.run(Request::new("x = [1]")).unwrap());
    assert_eq!(runtime.tier(), Some(Tier::Core));
    let code = format!("x.append(2)\n{UNFORESEEN}print(x, int(numpy.sum(x)))");
    let outcome = session.run(Request::new(code)).unwrap();
    succeeded(&outcome);
    assert_eq!(outcome.stdout, "[1, 2] 3\n");
    let report = outcome.session.unwrap();
    assert_eq!((report.execution, report.interpreter_restarted), (2, false));
    assert_eq!(runtime.tier(), Some(Tier::All));
}

#[test]
fn what_somebody_has_seen_is_not_begun_again() {
    let runtime = &CORE.1;
    let seen = |code: &str| {
        let code = format!("print('seen', flush=True)\n{code}");
        let request = Request::new(code).image("core").watch(Arc::new(Sees));
        run_on(runtime, request).outcome
    };
    let outcome = seen(
        "import importlib.util\ntry:\n  name = 'num' + 'py'\n  importlib.import_module(name)\n\
         except ModuleNotFoundError as e: print(e.name, e)",
    );
    succeeded(&outcome);
    let told = "seen\nnumpy No module named 'numpy': it needs code of the tier data, and this runs on \
                core; ";
    assert!(outcome.stdout.starts_with(told), "{outcome:#?}");
    assert!(outcome.stdout.contains("belljar setup --tier data"), "{outcome:#?}");

    // Bypassing the runner: the placeholder reports the missing code.
    let outcome = seen(
        "import importlib.machinery as m, importlib.util as u\n\
         spec = m.ModuleSpec('numpy._core._multiarray_umath', m.BuiltinImporter)\n\
         m.BuiltinImporter.exec_module(u.module_from_spec(spec))",
    );
    let detail = outcome.error_detail.unwrap();
    assert_eq!((detail.kind, detail.type_.as_str()), (ErrorKind::Crash, "MissingCode"));
    assert_eq!(detail.message, "this needs code of numpy, which the tier core does not hold");
    assert_eq!(runtime.tier(), Some(Tier::Core));
}

#[test]
fn looking_at_code_takes_no_more_of_it() {
    let report =
        CORE.1.blocking().check("import json, nonesuch\nimport os", &Policy::Open).unwrap();
    assert_eq!(report.missing_imports, ["nonesuch"]);
}
