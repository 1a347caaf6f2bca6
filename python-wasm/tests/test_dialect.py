"""IPython's dialect: rewriting, commands, and tracebacks."""

import pytest


def rewritten(code):
    from _belljar.dialect import dialect

    return dialect.rewrite(code)


def cells(runs, *codes, **changes):
    return runs.session(*codes, dialect="ipython", **changes)


def one(runs, code, **changes):
    done = runs(code, dialect="ipython", **changes)
    assert done.status()["status"] == "ok", done.stderr
    return done


@pytest.mark.parametrize(
    "code",
    [
        "x = 5 % 3\ny = (7\n% 2)\nz = 8 \\\n% 3",
        's = \'\'\'\n%time\n!ls\nx?\n\'\'\'\nt = """a\\"""\n!no\n"""',
        "x = [\n!1\n]",
        "a != b\nx = 'why?'  # why?\n# %time\n#!x",
        "f'{x!r}'\nx = 1 if a else b",
        "'a\\\n!b'\n",
        "x=1\r\ny = 7 %2\r\n",
        "",
        "\n\n",
    ],
)
def test_python_is_left_as_it_is(code):
    assert rewritten(code) == code


@pytest.mark.parametrize(
    ("code", "python"),
    [
        ("%matplotlib inline", "get_ipython().run_line_magic('matplotlib', 'inline')"),
        ("!pip install 'a b'", "get_ipython().system(\"pip install 'a b'\")"),
        ("  !ls -l", "  get_ipython().system('ls -l')"),
        ("x = !ls", "x = get_ipython().getoutput('ls')"),
        ("a, b = %time f()", "a, b = get_ipython().run_line_magic('time', 'f()')"),
        ("len?", "get_ipython().run_line_magic('pinfo', 'len')"),
        ("?a.b", "get_ipython().run_line_magic('pinfo', 'a.b')"),
        ("a.b??", "get_ipython().run_line_magic('pinfo', 'a.b')"),
        ("%pip install x", "get_ipython().run_line_magic('pip', 'install x')"),
        ("x = (1,\n2)\n!a\n", "x = (1,\n2)\nget_ipython().system('a')\n"),
        ("!a \\\n  b\nc", "get_ipython().system('a b')\n\nc"),
        ("if x:\n    %cd y\n", "if x:\n    get_ipython().run_line_magic('cd', 'y')\n"),
        ("x = '%d' % 3\n!it's", "x = '%d' % 3\nget_ipython().system(\"it's\")"),
        ("s = 'not closed\n!ls", "s = 'not closed\nget_ipython().system('ls')"),
    ],
)
def test_commands_become_calls_on_their_line(code, python):
    assert rewritten(code) == python
    assert rewritten(code).count("\n") == code.count("\n")


def test_without_the_dialect_commands_are_no_python(runs):
    assert runs("!ls").status()["status"] == "syntax"
    done = runs("get_ipython()")
    assert done.status()["type"] == "NameError"


def test_a_policy_sees_python_only(runs):
    rules = {"imports": [], "forbidden_names": ["eval"], "forbidden_attributes": []}
    assert runs("%time eval('1')", dialect="ipython", policy=rules).status()["status"] == "syntax"


def test_harmless_magics_do_nothing_and_unknown_ones_say_so(runs):
    done = one(runs, "%matplotlib inline\n%load_ext autoreload\n%autoreload 2\n%nonesuch 1\n1")
    assert done.stderr == "UsageError: Line magic function `%nonesuch` not found.\n"


def test_packages_that_are_there_are_there(runs):
    done = one(runs, "!pip install -q --upgrade pillow 'numpy>=1.20' scikit_nothing\n_exit_code")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Requirement already satisfied: pillow (")
    assert lines[1].startswith("Requirement already satisfied: numpy>=1.20 (")
    assert lines[2] == "ERROR: No matching distribution found for scikit_nothing"
    assert ", numpy," in lines[3]
    done = one(runs, "%pip install pandas\nimport sys\n!{sys} x\nresult = _exit_code")
    assert done.value() == 127


def test_few_commands_are_there(runs):
    done = one(
        runs,
        "open('a.txt', 'w').write('x\\ny\\n')\nname = 'a.txt'\n!ls\n!cat $name && echo {name} b\n"
        "files = !ls\nlines = !cat a.txt\n!git clone x\n!cat nonesuch && echo no\n!ls | wc\n"
        "result = [files, lines, lines.n]",
    )
    assert done.stdout == "a.txt\nx\ny\na.txt b\n"
    assert done.value() == [["a.txt"], ["x", "y"], "x\ny"]
    assert "`git clone x` cannot be run" in done.stderr
    assert "cat: nonesuch: No such file" in done.stderr
    assert "`ls | wc` cannot be run" in done.stderr


def test_directories_and_environment(runs):
    done = one(
        runs,
        "import os\nos.mkdir('d')\n%cd d\nwhere = %pwd\n!pwd\n%env A=1 2\n%env A\n"
        "result = [where.endswith('/d'), os.environ['A']]",
        echo="all",
    )
    assert done.value() == [True, "1 2"]
    assert done.stdout.splitlines()[2:] == ["env: A=1 2", "1 2"]


def test_times_are_told(runs):
    done = one(runs, "%time x = 6\n%time x * 7\n%timeit -n 3 -r 2 x + 1", echo="all")
    text = done.stdout
    assert text.count("Wall time: ") == 2
    assert "\n42\n" in text
    assert "per loop (mean \u00b1 std. dev. of 2 runs, 3 loops each)" in text
    done = one(runs, "%%time\ny = 2\ny", echo="last")
    assert done.stdout.startswith("2\nCPU times: ")
    done = one(runs, "%%timeit -n 2 -r 1\nfor _ in range(3):\n    print('a')")
    assert done.stdout.startswith("a\n" * 6)


def test_a_measurement_ends_where_the_clock_does_not_move(runs):
    done = one(runs, "import time\ntime.perf_counter = lambda: 0.0\n%timeit 1 + 1")
    assert "7 runs, 1 loop each" in done.stdout


def test_cell_magics(runs):
    done = one(runs, "%%writefile a.py\nx = 1\n!no")
    assert done.stdout == "Writing a.py\n"
    assert (runs.workspace / "a.py").read_text() == "x = 1\n!no"
    assert one(runs, "%%capture held\nprint('a')").stdout == ""
    assert one(runs, "%%bash\necho a\n# no\necho b").stdout == "a\nb\n"
    done = one(runs, "%%html\n<b>1</b>", displays=True)
    assert done.of("o")[0]["data"] == {"text/html": "<b>1</b>"}
    assert one(runs, "%%nonesuch\nx").stderr == "UsageError: Cell magic `%%nonesuch` not found.\n"


def test_help_on_an_object(runs):
    text = one(runs, "def f(a, b=1):\n    'What f does.'\nf?").stdout
    assert text.startswith("Signature: f(a, b=1)\nType:      function\n")
    assert "What f does." in text
    assert one(runs, "nonesuch?").stdout == "Object `nonesuch` not found.\n"


def test_earlier_values_have_names(runs):
    done = cells(
        runs,
        "41\n42",
        "_ + 1",
        "[_, __, _1, Out[2], len(In), In[1]]",
        "Out",
        "x = 7;",
        "_ == Out",
        echo="last",
    )
    assert done.stdout.splitlines()[:3] == ["42", "43", "[43, 42, 42, 43, 4, '41\\n42']"]


def test_a_variable_of_the_codes_own_stays(runs):
    done = cells(runs, "1", "_ = 'mine'", "2", "_", echo="last")
    assert done.stdout.splitlines() == ["1", "2", "'mine'"]


def test_values_of_earlier_expressions_are_no_variables(runs):
    code = "import pandas as pd\ndf = pd.DataFrame({'a': [1]})\ndf"
    done = cells(runs, code, echo="last")
    assert [frame["name"] for frame in done.of("d")] == ["df"]


def test_the_next_run_without_the_dialect_has_none_of_it(runs):
    first = runs.request("1", session=True, dialect="ipython")
    second = runs.request("get_ipython()", session=True)
    assert runs.of([first, second]).status(1)["type"] == "NameError"


DASHES = "-" * 75


def test_tracebacks_have_ipythons_shape(runs):
    done = cells(runs, "x = 1\ny = nonesuch\nz = 3")
    expected = (
        f"{DASHES}\n"
        "NameError                                 Traceback (most recent call last)\n"
        "Cell In[1], line 2\n"
        "      1 x = 1\n"
        "----> 2 y = nonesuch\n"
        "      3 z = 3\n"
        "\n"
        "NameError: name 'nonesuch' is not defined\n"
    )
    assert done.status()["traceback"] == expected
    assert done.status()["line"] == 2
    assert done.stderr == expected


def test_frames_of_earlier_cells_and_of_commands(runs):
    done = cells(
        runs,
        "def f(a, *b, c=1, **d):\n    x = 1\n\n    return 1 / 0\n\nx = 1",
        "!echo 1\n\nf(1)",
    )
    assert done.status(1)["traceback"] == (
        f"{DASHES}\n"
        "ZeroDivisionError                         Traceback (most recent call last)\n"
        "Cell In[2], line 3\n"
        "      1 !echo 1\n"
        "----> 3 f(1)\n"
        "\n"
        "Cell In[1], line 4, in f(a, c, *b, **d)\n"
        "      2     x = 1\n"
        "----> 4     return 1 / 0\n"
        "\n"
        "ZeroDivisionError: division by zero\n"
    )


def test_chains_begin_with_the_first(runs):
    text = cells(runs, "try:\n    1 / 0\nexcept Exception as e:\n    raise ValueError('x') from e")
    text = text.status()["traceback"]
    first, second = text.split("The above exception was the direct cause of")
    assert first.startswith(f"{DASHES}\nZeroDivisionError")
    assert second.rstrip().endswith("ValueError: x")


def test_syntax_errors_name_their_cell(runs):
    done = cells(runs, "pass", "x = (1 +")
    assert done.status(1)["traceback"] == (
        "  Cell In[2], line 1\n    x = (1 +\n        ^\nSyntaxError: '(' was never closed\n"
    )


def test_exceptions_that_fight_back_get_the_usual_text(runs):
    done = cells(runs, "class E(Exception):\n    def __str__(self): raise OSError\nraise E")
    assert "E: <exception str() failed>" in done.status()["traceback"]
