"""Runs code on the batches of a ``ray.data`` dataset."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import belljar

from ._crew import ray_module
from ._travel import travelling

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from belljar._types import RunOptions, Settings


class BatchError(belljar.BelljarError):
    """The code failed on a batch, or its result is not a table. ``outcome`` is that of the run."""

    outcome: belljar.Outcome


class Batch:
    """A callable class for ``Dataset.map_batches``: runs code in a fresh sandbox on each batch.

        dataset.map_batches(
            Batch, fn_constructor_args=("batch['y'] = batch['x'] * 2",),
            compute=ray.data.ActorPoolStrategy(size=4), batch_format="pandas",
        )

    The batch is in ``variable``. Its final value, or that of another variable with
    ``result="other"``, is the new batch: a DataFrame, or a dictionary of columns, which are arrays
    or lists of the same length. Columns get Arrow types; a column of objects without an Arrow type
    raises :class:`BatchError`, and so does code that fails. Further options are those of
    :meth:`belljar.Runtime.run`, and ``settings`` those of :class:`belljar.Runtime`.
    """

    def __init__(
        self,
        code: str,
        *,
        variable: str = "batch",
        settings: Settings | None = None,
        **options: Unpack[RunOptions],
    ) -> None:
        self._code = code
        self._variable = variable
        self._options = {"result": variable, **travelling(options)}
        self._runtime = _runtime_of(settings or {})

    def __call__(self, batch: Any) -> Any:
        """The batch that takes this one's place."""
        options = dict(self._options)
        own = {self._variable: _plain(batch)}
        options["variables"] = {**(options.get("variables") or {}), **own}
        with self._runtime.run(self._code, **options) as run:
            if run.error is not None:
                raise _failed(f"code failed on a batch: {run.error}", run.outcome)
            try:
                return table(run.result)
            except ValueError as error:
                text = f"what code left in {options['result']} is not a batch: {error}"
                raise _failed(text, run.outcome) from None


def map_batches(
    dataset: Any,
    code: str,
    *,
    workers: int = 1,
    batch_format: Literal["pandas", "numpy"] = "pandas",
    batch_size: int | None = None,
    num_cpus: float = 1,
    settings: Settings | None = None,
    **options: Unpack[RunOptions],
) -> Any:
    """Runs code on each batch of a dataset: short for ``dataset.map_batches(Batch, ...)``."""
    ray_module()
    from ray.data import ActorPoolStrategy

    return dataset.map_batches(
        Batch,
        fn_constructor_args=(code,),
        fn_constructor_kwargs={"settings": settings, **travelling(options)},
        compute=ActorPoolStrategy(size=workers),
        batch_format=batch_format,
        batch_size=batch_size,
        num_cpus=num_cpus,
    )


def table(value: Any) -> Any:
    """Converts a guest's result to an Arrow table without objects, or raises ValueError."""
    import pyarrow

    if hasattr(value, "columns") and hasattr(value, "to_numpy"):
        columns = [(str(name), value.iloc[:, at]) for at, name in enumerate(value.columns)]
    elif isinstance(value, Mapping):
        columns = [(str(name), column) for name, column in value.items()]
    else:
        raise ValueError(f"it is {_kind(value)}, not a DataFrame or dictionary of columns")
    made = {name: _column(pyarrow, name, column) for name, column in columns}
    if len(made) < len(columns):
        raise ValueError("two columns have the same name")
    lengths = {len(column) for column in made.values()}
    if len(lengths) > 1:
        raise ValueError(f"its columns have different lengths: {sorted(lengths)}")
    return pyarrow.table(made)


def _column(pyarrow: Any, name: str, column: Any) -> Any:
    if getattr(column, "ndim", 1) > 1:
        if column.dtype.kind not in "biuf":
            raise ValueError(f"column {name!r} has several dimensions and no numbers")
        from ray.data.extensions import ArrowTensorArray

        return ArrowTensorArray.from_numpy(column)
    if not hasattr(column, "dtype") and not isinstance(column, (list, tuple)):
        raise ValueError(f"column {name!r} is {_kind(column)}, not an array or list")
    try:
        # Series and arrays of any library that Arrow supports, by their type.
        return pyarrow.array(column, from_pandas=True)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"column {name!r} has no type in Arrow: {error}") from None


def _plain(batch: Any) -> Any:
    """Converts a batch to types that exist in the sandbox."""
    if type(batch).__module__.partition(".")[0] == "pyarrow":
        return batch.to_pandas()
    return dict(batch) if isinstance(batch, Mapping) else batch


def _kind(value: Any) -> str:
    return value.class_ if isinstance(value, belljar.Opaque) else type(value).__name__


def _failed(text: str, outcome: belljar.Outcome) -> BatchError:
    error = BatchError(text, "ray.batch", "guest", outcome.stderr.strip()[-2000:] or None)
    error.outcome = outcome
    return error


_runtimes: dict[str, belljar.Runtime] = {}
_making = threading.Lock()


def _runtime_of(settings: Mapping[str, Any]) -> belljar.Runtime:
    """The runtime of this process for all datasets with the same settings."""
    with _making:
        key = repr(sorted(settings.items()))
        if key not in _runtimes:
            _runtimes[key] = belljar.Runtime(**{"progress": False, **settings})
        return _runtimes[key]
