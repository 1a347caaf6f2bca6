"""Code on a real Ray cluster on this machine, with several worker processes."""

import asyncio
import logging
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import time

import pytest

import belljar
import belljar.ray
from belljar.ray import BatchError, LostError, Pool, map_batches
from belljar.ray._batch import table

WORKERS = 3


@pytest.fixture(scope="module")
def ray():
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled")
    ray = pytest.importorskip("ray", reason="ray is not installed")
    # A short path, because it will contain sockets.
    directory = tempfile.mkdtemp(prefix="ray-")
    ray.init(
        num_cpus=4 * WORKERS,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=100 * 2**20,
        _temp_dir=directory,
    )
    yield ray
    ray.shutdown()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def pool(ray):
    with Pool(WORKERS, image="core") as pool:
        # All of them running, so that each gets work.
        until(lambda: len(pool.workers) == WORKERS)
        yield pool


def until(is_so, seconds=30):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_without_ray_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install ray$"):
        Pool()
    with pytest.raises(ImportError, match=r"pip install ray$"):
        map_batches(None, "")


def test_a_map_in_the_order_of_its_inputs(pool):
    results = list(pool.map("print(item)\nresult = (item, {item: 'x'})", range(40)))
    assert [result.index for result in results] == list(range(40))
    assert [result.result for result in results] == [(n, {n: "x"}) for n in range(40)]
    assert results[7].stdout == "7\n"
    assert {result.attempts for result in results} == {1}
    used = {result.worker for result in results}
    assert len(used) > 1
    assert used <= {f"{worker.pid}@{worker.node}" for worker in pool.workers}


def test_a_map_as_its_runs_end(pool):
    code = "import time\ntime.sleep(item)\nresult = item"
    results = pool.map(code, [1.0, 0.0, 0.1], ordered=False)
    assert [result.index for result in results] == [1, 2, 0]


def test_inputs_are_read_as_they_are_needed(pool):
    read = []

    def inputs():
        for n in range(10_000):
            read.append(n)
            yield n

    results = pool.map("result = item", inputs(), chunk=2)
    assert [next(results).result for _ in range(10)] == list(range(10))
    results.close()
    assert len(read) < 100
    # Inputs that were read ahead are dropped, and the pool continues.
    assert pool.run("result = 1").result == 1


def test_inputs_of_several_variables_and_what_all_have(pool, tmp_path):
    (tmp_path / "a.txt").write_text("of this machine")
    results = pool.map(
        "result = [a, b, c, open('a.txt').read()]",
        [{"a": 1, "b": 2}, {"a": 3, "b": 4}],
        variable=None,
        variables={"b": 0, "c": 9},
        files={"a.txt": tmp_path / "a.txt"},
    )
    assert [result.result for result in results] == [
        [1, 2, 9, "of this machine"],
        [3, 4, 9, "of this machine"],
    ]


def test_values_keep_their_types(pool):
    import numpy as np
    import pandas as pd

    frame = pd.DataFrame({"n": [1, 2], "t": pd.to_datetime(["2026-01-01", "2026-01-02"])})
    result = pool.run(
        "df['m'] = df.n * 2\nresult = {'df': df, 'bytes': b'x', 'object': object()}",
        image="data",
        variables={"df": frame},
    ).result
    pd.testing.assert_frame_equal(result["df"], frame.assign(m=np.array([2, 4])))
    assert result["bytes"] == b"x"
    # No object of a guest's class is created.
    assert isinstance(result["object"], belljar.Opaque)


def test_what_code_does_wrong_is_data(pool):
    results = list(pool.map("result = 1 / item", [1, 0]))
    assert [result.success for result in results] == [True, False]
    assert results[1].failure is None
    assert str(results[1].error) == "ZeroDivisionError: division by zero"
    [slow] = pool.map("while True: pass", [0], timeout=0.2)
    assert slow.error.kind == "timeout"
    again = pickle.loads(pickle.dumps(slow))
    assert (again.index, again.outcome) == (slow.index, slow.outcome)


def test_what_is_refused_is_a_failure_of_its_input(pool):
    results = list(pool.map("result = a", [{"a": 1}, {"not a name": 1}], variable=None))
    assert results[0].result == 1
    assert not results[1].success
    with pytest.raises(belljar.RefusedError) as caught:
        _ = results[1].outcome
    assert caught.value.reasons
    # A value that cannot be pickled does not affect others.
    results = list(pool.map("result = item", [1, threading.Lock(), 3], chunk=3))
    assert [result.success for result in results] == [True, False, True]
    assert isinstance(results[1].failure, TypeError)


def test_limits_travel(pool):
    limits = belljar.Limits(timeout=0.2, fuel=10**12)
    assert pool.run("while True: pass", limits=limits).outcome.error.kind == "timeout"
    nap = "import time\ntime.sleep(5.2)"
    assert pool.run(nap, limits=limits.replace(timeout=None)).outcome.success
    assert pool.run(nap, timeout=None).outcome.success


def test_options_are_looked_at_before_anything_is_sent(pool):
    with pytest.raises(TypeError, match="did you mean 'timeout'"):
        pool.map("", [], timeuot=1)
    with pytest.raises(TypeError, match="map has 'timeout' twice"):
        pool.map("", [], timeout=1, limits=belljar.Limits(timeout=2))
    with pytest.raises(TypeError, match="a worker cannot call"):
        pool.map("", [], on_event=print)
    with pytest.raises(ValueError, match="chunk"):
        pool.map("", [], chunk=0)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(pool)


def test_files_are_collected_as_far_as_they_fit(pool):
    code = "open('a', 'w').write('x' * 10)\nopen('b', 'w').write('y' * 100)"
    result = pool.run(code, collect_bytes=50)
    assert (list(result), result["a"]) == (["a"], b"x" * 10)
    assert "a" in result
    with pytest.raises(belljar.NoSuchFileError, match="not collected"):
        result["b"]
    with pytest.raises(belljar.NoSuchFileError, match="left no file c"):
        result["c"]


async def test_on_an_event_loop(pool):
    async def total(ordered):
        results = pool.amap("result = item", range(30), ordered=ordered, chunk=4)
        return sum([result.result async for result in results])

    one = pool.arun("result = 'one'")
    found = await asyncio.gather(total(True), total(False), one)
    assert found[:2] == [435, 435]
    assert found[2].result == "one"


def test_a_worker_killed_in_the_middle(pool, caplog):
    victim = pool.workers[0].pid
    code = "import time\ntime.sleep(0.05)\nresult = item * 2"
    results = []
    with caplog.at_level(logging.WARNING, "belljar"):
        for result in pool.map(code, range(60)):
            results.append(result)
            if result.index == 10:
                os.kill(victim, signal.SIGKILL)
    assert [result.result for result in results] == [n * 2 for n in range(60)]
    [again] = [result for result in results if result.attempts > 1]
    assert again.attempts == 2
    assert again.losses[0].startswith(f"worker {victim}@")
    assert not again.worker.startswith(f"{victim}@")
    assert f"worker {victim}@" in caplog.text
    assert "is done again" in caplog.text
    until(lambda: len(pool.workers) == WORKERS)
    assert victim not in [worker.pid for worker in pool.workers]


def test_an_input_that_kills_its_workers_is_given_up(pool):
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    code = "import tools\nif item == 2:\n    tools.die()\nresult = item"
    results = list(pool.map(code, range(6), tools=[die], retries=1, chunk=3))
    assert [result.success for result in results] == [True, True, False, True, True, True]
    assert [result.attempts for result in results] == [2, 2, 2, 1, 1, 1]
    with pytest.raises(LostError, match="2 workers were lost in the middle of input 2") as caught:
        _ = results[2].result
    assert (caught.value.code, caught.value.blame) == ("ray.lost", "machine")
    assert len(results[2].losses) == 2


def test_workers_that_cannot_be_set_up(ray, tmp_path):
    (tmp_path / "file").write_text("")
    with Pool(1, settings={"cache": tmp_path / "file"}) as pool:
        [result] = pool.map("", [0])
        with pytest.raises(belljar.SetupError) as caught:
            _ = result.outcome
        assert caught.value.code == "cache.not_a_directory"
        assert isinstance(pool.run("").failure, belljar.SetupError)


def test_the_end_of_a_pool(ray):
    pool = Pool(1, image="core", num_cpus=0.5)
    until(lambda: pool.workers)
    [worker] = pool.workers
    found = []
    code = "import time\ntime.sleep(60)"
    thread = threading.Thread(
        target=lambda: found.extend(pool.map(code, range(3), timeout=90)), daemon=True
    )
    thread.start()
    time.sleep(0.5)
    began = time.monotonic()
    pool.close()
    pool.close()
    assert time.monotonic() - began < 10
    thread.join(10)
    assert [type(result.failure) for result in found] == [belljar.ClosedError] * 3
    assert isinstance(pool.run("").failure, belljar.ClosedError)
    until(lambda: not is_alive(worker.pid))


def test_after_a_fork(pool):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            pool._crew.close()
            pool.run("")
        except belljar.ForkedError as error:
            os.write(writing, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        assert told.read() == "ForkedError"
    assert os.waitpid(child, 0)[1] == 0
    assert pool.run("result = 1").result == 1


def test_a_pool_that_nobody_holds_ends(ray):
    before = threading.active_count()
    results = Pool(1, image="core", num_cpus=0.5).map("result = item", range(9))
    # A running map keeps a reference.
    assert [next(results).result for _ in range(8)] == list(range(8))
    assert threading.active_count() > before
    del results
    until(lambda: threading.active_count() <= before)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def store_pool(ray, store):
    with Pool(WORKERS, image="core", num_cpus=0.5, store=store, lease=1) as pool:
        until(lambda: len(pool.workers) == WORKERS)
        yield pool


def test_a_session_that_any_worker_goes_on_with(store_pool):
    session = store_pool.create({"of": "me"}, init_code="log = []")
    workers = set()
    for n in range(40):
        result = session.run(f"log.append({n})\nresult = len(log)")
        assert (result.failure, result.result, result.outcome.execution) == (None, n + 1, n + 1)
        workers.add(result.worker)
    assert len(workers) > 1
    assert store_pool.session(session.id) == session
    assert session.get("log") == list(range(40))
    assert session.get("nothing", "none") == "none"
    session.set("log", (1,))
    assert session.evaluate({"n": "len(log)"}) == {"n": 1}
    info = session.info
    assert (info.about, info.execution, info.node) == ({"of": "me"}, 40, None)
    fork = session.fork()
    fork.rewind(2)
    assert fork.get("log") == [0, 1]
    result = session.run("open('f', 'w').write('text')", collect_bytes=10)
    assert result["f"] == b"text"
    session.remove()
    assert session.info is None
    with pytest.raises(belljar.SessionError) as caught:
        session.get("log")
    assert caught.value.code == "session.not_found"
    assert session.run("1").failure.code == "session.not_found"


async def test_sessions_on_an_event_loop(store_pool):
    session = await store_pool.acreate(init_code="log = []")
    runs = [session.arun(f"log.append({n})\nresult = len(log)") for n in range(10)]
    others = [store_pool.arun("result = 'free'") for _ in range(3)]
    results = await asyncio.gather(*runs, *others)
    # In the order of their calls, while others run.
    assert [result.result for result in results] == [*range(1, 11), "free", "free", "free"]
    assert await session.aget("log") == list(range(10))
    await session.aset("log", 1)
    assert await session.aevaluate({"a": "log + 1"}) == {"a": 2}
    fork = await session.afork({"of": session.id})
    assert (await fork.ainfo()).about == {"of": session.id}
    await fork.arewind(0)
    assert await fork.aget("log") == []
    await fork.aremove()
    # A cancelled call is not started, and delays nothing.
    slow = asyncio.ensure_future(session.arun("import time\ntime.sleep(0.5)"))
    await asyncio.sleep(0.1)
    dropped = asyncio.ensure_future(session.arun("log = 'dropped'"))
    await asyncio.sleep(0)
    dropped.cancel()
    assert (await slow).success
    assert await session.aget("log") == 1


@pytest.mark.here("workers have runtimes of their own")
def test_a_worker_killed_in_the_middle_of_a_sessions_run(store_pool, store, runtime):
    session = store_pool.create(init_code="x = 1")
    # From the store: asking a worker would wait for the run.
    here = belljar.StoredSessions(store, runtime).session(session.id)
    assert session.run("x = 2").success
    found = []
    code = "x = 3\nimport time\ntime.sleep(60)"
    thread = threading.Thread(target=lambda: found.append(session.run(code, timeout=90)))
    thread.start()
    until(lambda: here.info.node is not None)
    victim = int(here.info.node.partition("@")[0])
    os.kill(victim, signal.SIGKILL)
    # Another worker takes over after a second without a sign of life.
    result = session.run("result = x")
    thread.join(30)
    [lost] = found
    assert isinstance(lost.failure, LostError)
    assert lost.attempts == 1
    assert f"worker {victim}@" in lost.losses[0]
    assert result.result == 2
    assert not result.worker.startswith(f"{victim}@")
    reason = result.outcome.restart_reason
    assert reason.startswith(f"run 2 was lost: node {victim}@")
    assert session.run("result = x").outcome.restart_reason is None
    until(lambda: len(store_pool.workers) == WORKERS)


def test_a_pool_without_a_store_has_no_sessions(pool):
    with pytest.raises(ValueError, match="store="):
        pool.create()
    with pytest.raises(ValueError, match="store="):
        pool.session("0123456789abcdef")


def test_sessions_of_a_pool_that_is_closed(ray, tmp_path):
    pool = Pool(1, image="core", num_cpus=0.5, store=tmp_path)
    with pytest.raises(TypeError, match="tools belongs to one process"):
        pool.create(tools=[print])
    with pytest.raises(TypeError, match="did you mean 'init_code'"):
        pool.create(init_cod="")
    session = pool.create(init_code="x = 1")
    with pytest.raises(TypeError, match="a worker cannot call"):
        session.run("1", on_event=print)
    with pytest.raises(TypeError, match="its id can be"):
        pickle.dumps(session)
    found = []
    threads = [
        threading.Thread(
            target=lambda: found.append(session.run("import time\ntime.sleep(30)", timeout=60))
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    time.sleep(1)
    pool.close()
    for thread in threads:
        thread.join(20)
    assert [type(result.failure) for result in found] == [belljar.ClosedError] * 3
    with pytest.raises(belljar.ClosedError):
        session.get("x")
    # The store still has it.
    with belljar.Runtime() as runtime:
        stored = belljar.StoredSessions(tmp_path, runtime).session(session.id)
        assert stored.run("result = x").result == 1


@pytest.fixture(scope="module")
def data(ray):
    data = pytest.importorskip("ray.data", reason="ray is not installed")
    context = data.DataContext.get_current()
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    return data


def test_batches_of_a_dataset_as_frames(data):
    import pandas as pd

    frame = pd.DataFrame({"x": range(300), "name": [f"n{n}" for n in range(300)]})
    code = "batch['y'] = batch['x'] * 2\nbatch['name'] = batch['name'].str.upper()"
    made = map_batches(
        data.from_pandas(frame).repartition(3), code, workers=2, batch_size=50, image="data"
    )
    rows = sorted(made.take_all(), key=lambda row: row["x"])
    assert rows == [{"x": n, "name": f"N{n}", "y": n * 2} for n in range(300)]


def test_batches_of_a_dataset_as_columns(data):
    import numpy as np

    code = "out = {'sum': batch['data'].sum(axis=1), 'twice': batch['data'] * 2}"
    made = map_batches(
        data.range_tensor(20, shape=(3,)),
        code,
        batch_format="numpy",
        image="data",
        result="out",
    )
    rows = sorted(made.take_all(), key=lambda row: row["sum"])
    assert [row["sum"] for row in rows] == [3 * n for n in range(20)]
    assert np.array_equal(rows[5]["twice"], [10, 10, 10])


def test_code_that_fails_on_a_batch_fails_the_dataset(data):
    made = map_batches(data.range(4), "batch['o'] = [object()] * len(batch['id'])", image="data")
    with pytest.raises(Exception, match="column 'o' has no type in Arrow"):
        made.take_all()


def test_a_batch_is_plain_data():
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import numpy as np
    import pandas as pd

    made = table({"a": [1, None], "b": np.array([1.5, 2]), "c": pd.Series(["x", None])})
    assert made.to_pydict() == {"a": [1, None], "b": [1.5, 2.0], "c": ["x", None]}
    opaque = belljar.Opaque("__main__.Thing", "<Thing>")
    for wrong, why in [
        (opaque, "it is __main__.Thing, not"),
        ([1, 2], "list, not a DataFrame or dictionary of columns"),
        ({"a": opaque}, "column 'a' is __main__.Thing, not an array or list"),
        ({"a": [opaque]}, "column 'a' has no type"),
        ({"a": pd.Series([opaque])}, "column 'a' has no type"),
        ({"a": [1, "x"]}, "column 'a' has no type"),
        ({"a": [2**80]}, "column 'a' has no type"),
        ({"a": np.array([[opaque]])}, "several dimensions and no numbers"),
        ({"a": [1], "b": [1, 2]}, "different lengths"),
        ({"1": [1], 1: [2]}, "same name"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "same name"),
    ]:
        with pytest.raises(ValueError, match=why):
            table(wrong)


def test_a_batch_error_has_the_outcome(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    batch = belljar.ray.Batch("x = batch\n1 / 0", image="core")
    with pytest.raises(BatchError, match="ZeroDivisionError") as caught:
        batch({"a": [1]})
    assert caught.value.outcome.error.line == 2
    assert "line 2" in caught.value.hint
    assert pickle.loads(pickle.dumps(caught.value)).outcome == caught.value.outcome
