"""Parquet files for pandas, replacing the packages that pandas requires and that are not available.

Reader and writer are imported on first use, to keep them out of images.
"""

import sys

_modules = sys.modules
_NOT_HERE = ("filesystem", "filters", "partition_cols")


def patch(module):
    """For `pandas.io.parquet`: the engine used if none is named."""
    usual = module.get_engine
    engine = _engine(module)

    def get_engine(engine_name):
        """return our implementation"""
        if engine_name == "auto" and _modules["pandas"].get_option("io.parquet.engine") == "auto":
            return engine()
        return usual(engine_name)

    get_engine.__module__ = module.__name__
    get_engine.__code__ = get_engine.__code__.replace(co_name="get_engine")
    module.get_engine = get_engine


def _refuse(arguments):
    for name in _NOT_HERE:
        if arguments.pop(name, None) is not None:
            raise ValueError(f"Parquet files are read and written here without {name!r}")
    options = arguments.pop("to_pandas_kwargs", None) or {}
    for name in (*arguments, *options):
        raise TypeError(f"Parquet files are read and written here without the argument {name!r}")


def _engine(module):
    class BelljarImpl(module.BaseImpl):
        def write(self, df, path, compression="snappy", index=None, storage_options=None, **kwargs):
            from _belljar.formats import parquet_write

            self.validate_dataframe(df)
            size = kwargs.pop("row_group_size", None)
            _refuse(kwargs)
            content = parquet_write.Content(df, compression, index, size)
            with module.get_handle(
                path, "wb", is_text=False, storage_options=storage_options
            ) as handles:
                content.write(handles.handle)

        def read(self, path, columns=None, storage_options=None, dtype_backend=None, **kwargs):
            from _belljar.formats import parquet_read

            if dtype_backend == "pyarrow":
                module.import_optional_dependency("pyarrow")
            _refuse(kwargs)
            try:
                handles = module.get_handle(
                    path, "rb", is_text=False, storage_options=storage_options
                )
            except IsADirectoryError:
                raise ValueError(
                    f"{str(path)!r} is a directory, and Parquet files are read here one by one: "
                    "read each of them and put them together with pandas.concat"
                ) from None
            with handles:
                is_nullable = dtype_backend == "numpy_nullable"
                return parquet_read.read(handles.handle, columns, is_nullable)

    BelljarImpl.__module__, BelljarImpl.__qualname__ = module.__name__, "BelljarImpl"
    return BelljarImpl
