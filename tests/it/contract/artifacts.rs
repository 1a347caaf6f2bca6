//! Items 5, 6, 11 and the options for artifacts.

use std::fs;
use std::time::{Duration, Instant};

#[cfg(unix)]
use belljar::error::WorkspaceError;
use belljar::request::{Capture, FigureFormat};
use belljar::{Error, Request};

use crate::case;
use crate::support::{paths, run, run_on, runtime_in, succeeded};

const LINKS: &str = "
import os
os.makedirs('inside')
open('inside/real.txt', 'w').write('real')
os.symlink('inside/real.txt', 'to-file')
os.symlink('inside', 'to-directory')
try:
    os.symlink(TARGET, 'out')
except OSError:
    os.symlink('../../secret.txt', 'out')
";

#[test]
fn contract_11_links_are_never_followed_out() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret.txt");
    fs::write(&secret, "top secret").unwrap();
    let runtime = runtime_in(dir.path());
    let code = LINKS.replace("TARGET", &format!("{:?}", secret.to_str().unwrap()));
    let run = run_on(&runtime, Request::new(code));
    for path in ["out", "to-directory/../../secret.txt", "../secret.txt", "../../secret.txt"] {
        assert!(run.read(path).is_err(), "{path}");
    }
    assert!(run.read(secret.to_str().unwrap()).is_err());
    let copies = tempfile::tempdir().unwrap();
    let made = run.copy_to(copies.path()).unwrap();
    assert_eq!(made, [copies.path().join("inside/real.txt")]);
    for file in &run.outcome.files {
        assert_ne!(file.size, 10, "{file:?} has the size of the secret");
    }
}

#[test]
fn contract_11_a_link_is_listed_by_what_it_is() {
    let run = run(Request::new(
        "import os\nopen('a.txt', 'w').write('abc')\nos.symlink('a.txt', 'link')\n\
         os.symlink('gone', 'dangling')\nos.mkdir('empty')",
    ));
    succeeded(&run.outcome);
    assert_eq!(paths(&run.outcome), ["a.txt", "link"]);
    let link = &run.outcome.files[1];
    assert_eq!((link.symlink.as_deref(), link.size), (Some("a.txt"), 5));
}

#[test]
fn contract_11_artifacts_last_until_the_run_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime_in(dir.path());
    let request = Request::new("open('data.bin', 'wb').write(bytes(range(256)))");
    let kept = run_on(&runtime, request.clone());
    let dropped = run_on(&runtime, request);
    assert_eq!(kept.read("data.bin").unwrap(), (0..=255).collect::<Vec<u8>>());
    assert!(matches!(kept.read("other.bin"), Err(Error::NoSuchFile { .. })));
    drop(dropped);
    assert_eq!(kept.read("data.bin").unwrap().len(), 256);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);

    let directory = kept.keep().unwrap();
    assert_eq!(fs::read(directory.join("data.bin")).unwrap().len(), 256);
    drop(runtime);
    assert!(directory.exists());
}

#[test]
fn contract_11_a_run_holds_no_directory() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime_in(dir.path());
    let held: Vec<_> =
        (0..50).map(|n| run_on(&runtime, Request::new(format!("print({n})")))).collect();
    let wrote = run_on(&runtime, Request::new("open('a', 'w').write('b')"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    for (n, run) in held.into_iter().enumerate() {
        assert_eq!(run.outcome.stdout, format!("{n}\n"));
        assert!(matches!(run.read("a"), Err(Error::NoSuchFile { .. })));
        let directory = run.keep().unwrap();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "{}", directory.display());
    }
    assert_eq!(wrote.read("a").unwrap(), b"b");
}

#[test]
#[cfg(unix)]
fn contract_11_copies_stay_in_their_directory() {
    use std::os::unix::fs::{MetadataExt, symlink};
    let code = "import os\nos.mkdir('sub')\n\
                for name in ('a', 'b', 'link', 'sub/c', 'z'): open(name, 'w').write(name)\n\
                for n in range(900): os.link('z', f'z{n}')";
    let run = run(Request::new(code));
    let (target, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (dir, secret) = (target.path(), outside.path().join("secret"));
    fs::write(&secret, "secret").unwrap();
    fs::write(dir.join("a"), "before, and longer").unwrap();
    fs::create_dir(dir.join("b")).unwrap();
    symlink(&secret, dir.join("link")).unwrap();
    symlink(outside.path(), dir.join("sub")).unwrap();

    let Err(Error::Workspace(WorkspaceError::Copies {
        copied, failures, ..
    })) = run.copy_to(dir)
    else {
        panic!("a directory and a way out cannot be written to");
    };
    let failed: Vec<_> = failures.iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(failed, [dir.join("b"), dir.join("sub/c")]);
    assert_eq!(copied.len(), 903);
    assert_eq!(fs::read_to_string(dir.join("a")).unwrap(), "a");
    assert_eq!(fs::read_to_string(dir.join("link")).unwrap(), "link");
    assert!(!fs::symlink_metadata(dir.join("link")).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    // A file is returned once, however many names the guest gives it.
    assert_eq!(fs::metadata(dir.join("z899")).unwrap().nlink(), 901);
    assert_eq!(fs::read_dir(dir).unwrap().count(), 905, "nothing else is left there");
}

#[test]
fn contract_11_copies_make_directories() {
    let run = run(Request::new(
        "import os\nos.makedirs('a/b')\nopen('a/b/c.txt', 'w').write('deep')\n\
         open('top.txt', 'w').write('top')",
    ));
    let target = tempfile::tempdir().unwrap();
    let copied = run.copy_to(&target.path().join("new/out")).unwrap();
    assert_eq!(copied.len(), 2);
    assert_eq!(fs::read_to_string(target.path().join("new/out/a/b/c.txt")).unwrap(), "deep");
    assert_eq!(fs::read_to_string(target.path().join("new/out/top.txt")).unwrap(), "top");
}

#[test]
fn contract_11_hashes_and_media_types_on_request() {
    let capture = Capture::default().file_hashes(true).media_types(true);
    let code = "open('a.csv', 'w').write('abc')\nopen('b.unknown-kind', 'w').close()";
    let outcome = run(Request::new(code).capture(capture)).outcome;
    let [csv, unknown] = &outcome.files[..] else {
        panic!("{outcome:#?}");
    };
    assert_eq!(csv.media_type.as_deref(), Some("text/csv"));
    assert_eq!(unknown.media_type, None);
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(csv.sha256.as_deref(), Some(abc));
    assert_eq!(unknown.sha256.as_deref(), Some(nothing));
}

#[test]
fn contract_11_a_file_with_many_names_is_hashed_once() {
    let code = "import os\nopen('0', 'wb').write(bytes(48 << 20))\n\
                for n in range(1, 900): os.link('0', str(n))";
    let mut took = Vec::new();
    for file_hashes in [false, true] {
        let capture = Capture::default().file_hashes(file_hashes);
        let started = Instant::now();
        let outcome = run(Request::new(code).capture(capture)).outcome;
        took.push(started.elapsed());
        succeeded(&outcome);
        assert_eq!(outcome.files.len(), 900);
        let hash = &outcome.files[0].sha256;
        assert_eq!(hash.is_some(), file_hashes);
        assert!(outcome.files.iter().all(|file| file.sha256 == *hash));
    }
    // For each name it would take over 20 seconds more.
    assert!(took[1] < took[0] + Duration::from_secs(10), "{took:?}");
}

#[test]
fn contract_05_what_is_given_inline_is_bounded() {
    let capture = Capture::default().inline_images(true);
    let code = "import os, _host\nopen('0.png', 'wb').write(bytes(15 << 20))\n\
                for n in range(1, 20):\n    os.link('0.png', f'{n}.png')\n    \
                _host.call(b'p{\"path\":\"%d.png\"}' % n)";
    let outcome = run(Request::new(code).capture(capture)).outcome;
    succeeded(&outcome);
    assert_eq!(outcome.plots.len(), 19);
    let inline = outcome.plots.iter().filter(|plot| plot.base64_uri.is_some());
    assert_eq!(inline.count(), 4);
}

#[test]
fn contract_11_nothing_of_a_capture_that_was_not_asked_for() {
    let capture = Capture::default().figures(false).dataframes(false);
    let code = "import pandas as pd\nimport matplotlib.pyplot as plt\n\
                frame = pd.DataFrame({'a': [1]})\nplt.plot([1, 2])\nplt.show()\nplt.plot([1])";
    let outcome = run(Request::new(code).capture(capture)).outcome;
    succeeded(&outcome);
    assert!(outcome.plots.is_empty() && outcome.files.is_empty(), "{outcome:#?}");
    assert!(outcome.dataframes.is_empty(), "{outcome:#?}");
}

#[test]
fn contract_05_inline_images_and_formats() {
    let code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])";
    let inline = |figure_format, figure_dpi| {
        let mut capture = Capture::default().figure_format(figure_format).inline_images(true);
        capture.figure_dpi = figure_dpi;
        run(Request::new(code).capture(capture))
    };
    let svg = inline(FigureFormat::Svg, None);
    assert_eq!(svg.outcome.plots[0].path, "plots/plot_1.svg");
    let uri = svg.outcome.plots[0].base64_uri.as_deref().unwrap();
    assert!(uri.starts_with("data:image/svg+xml;base64,"), "{}", &uri[..40]);
    assert!(String::from_utf8(svg.read("plots/plot_1.svg").unwrap()).unwrap().contains("<svg"));

    let png = inline(FigureFormat::Png, Some(50));
    let uri = png.outcome.plots[0].base64_uri.as_deref().unwrap();
    assert!(uri.starts_with("data:image/png;base64,iVBORw0KGgo"), "{}", &uri[..40]);
    let larger = inline(FigureFormat::Png, Some(200));
    let [small, large] = [&png, &larger].map(|run| case::size(run, "plots/plot_1.png"));
    assert_eq!(small[0].as_u64().unwrap() * 4, large[0].as_u64().unwrap());
}

#[test]
fn contract_05_no_more_figures_than_asked_for() {
    let capture = Capture::default().figure_count(2);
    let code = "import matplotlib.pyplot as plt\nfor n in range(5):\n    plt.figure(dpi=10)\n    plt.plot([1])";
    let outcome = run(Request::new(code).capture(capture)).outcome;
    succeeded(&outcome);
    assert_eq!(outcome.plots.len(), 2);
}

#[test]
fn contract_07_tables_on_request() {
    let capture = Capture::default().table_rows(2);
    let code = "import pandas as pd\nframe = pd.DataFrame({'n': [1, 2, 3], 't': ['a', 'b', None]}, index=list('xyz'))";
    let outcome = run(Request::new(code).capture(capture)).outcome;
    let table = outcome.dataframes[0].table.as_ref().unwrap();
    assert_eq!(table.columns, ["n", "t"]);
    assert_eq!(table.dtypes[0], "int64");
    assert_eq!(table.shape, [3, 2]);
    assert_eq!(table.index, ["x", "y"]);
    assert_eq!(serde_json::to_value(&table.rows).unwrap(), serde_json::json!([[1, "a"], [2, "b"]]));
    assert!(table.truncated);
}

#[test]
fn contract_07_a_repr_is_cut_at_its_limit() {
    let capture = Capture::default().dataframe_chars(100);
    let code = "import pandas as pd\nlong = pd.Series(['é' * 40] * 20)\nshort = pd.Series([1])";
    let outcome = run(Request::new(code).capture(capture)).outcome;
    assert!(outcome.dataframes[0].repr.chars().count() <= 103, "{:?}", outcome.dataframes[0]);
    assert_eq!(outcome.dataframes[1].repr, "0    1\ndtype: int64");
    assert_eq!(outcome.truncated, [belljar::outcome::Truncated::Dataframes]);
}

#[test]
fn contract_12_the_result_is_cut_at_its_limit() {
    let capture = Capture::default().result_bytes(1000);
    let outcome = run(Request::new("result = list(range(10_000))").capture(capture)).outcome;
    succeeded(&outcome);
    assert_eq!(outcome.truncated, [belljar::outcome::Truncated::Result]);
    let kept = outcome.result.as_array().unwrap();
    assert!((10..=1000).contains(&kept.len()), "{}", kept.len());
    assert!(serde_json::to_string(&outcome.result).unwrap().len() <= 1100);
}

/// Documents are opened again; what else the code writes is not.
#[test]
fn contract_11_broken_documents_are_told() {
    let code = "import zipfile
for name in ('a.docx', 'a.pdf', 'a.txt'):
    open(name, 'w').write('no document')
with zipfile.ZipFile('b.xlsx', 'w') as book:
    book.writestr('[Content_Types].xml', '<Types>')
import os
os.symlink('a.docx', 'c.docx')
os.mkdir('d')
for name in ('d/e.odt', 'd/f.PDF'):
    os.link('a.docx', name)";
    let outcome = run(Request::new(code).image("core")).outcome;
    succeeded(&outcome);
    let problems: Vec<Option<&str>> =
        outcome.files.iter().map(|file| file.problem.as_deref()).collect();
    let [docx, pdf, txt, xlsx, link, odt, other] = problems[..] else {
        panic!("{:?}", outcome.files);
    };
    assert_eq!((odt, other), (docx, pdf));
    assert!(docx.unwrap().starts_with("it is no zip archive"), "{docx:?}");
    assert_eq!(pdf, Some("the header %PDF- is missing"));
    assert!(xlsx.unwrap().contains("it ends inside an element"), "{xlsx:?}");
    assert_eq!((txt, link), (None, None));
}
