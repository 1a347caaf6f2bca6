"""Feather files for pandas, replacing the package that pandas requires and that is not available.

Reader and writer are imported on first use, to keep them out of images.
"""

import sys

_modules = sys.modules


def patch(module):
    """For `pandas.io.feather_format`."""

    def to_feather(df, path, storage_options=None, **kwargs):
        from _belljar.formats import arrow_write

        if not isinstance(df, module.DataFrame):
            raise ValueError("feather only support IO with DataFrames")
        version = kwargs.pop("version", 2)
        if version != 2:
            raise ValueError(f"Feather files are written here with version=2, not {version!r}")
        kwargs.pop("compression_level", None)
        content = arrow_write.Content(
            df, kwargs.pop("compression", None), kwargs.pop("chunksize", None)
        )
        for name in kwargs:
            raise TypeError(f"write_feather() got an unexpected keyword argument {name!r}")
        with module.get_handle(
            path, "wb", storage_options=storage_options, is_text=False
        ) as handles:
            content.write(handles.handle)

    def read_feather(
        path,
        columns=None,
        use_threads=True,
        storage_options=None,
        dtype_backend=module.lib.no_default,
    ):
        from _belljar.formats import arrow_read

        module.check_dtype_backend(dtype_backend)
        if dtype_backend == "pyarrow":
            module.import_optional_dependency("pyarrow")
        with module.get_handle(
            path, "rb", storage_options=storage_options, is_text=False
        ) as handles:
            is_nullable = dtype_backend == "numpy_nullable"
            return arrow_read.read(handles.handle, columns, is_nullable)

    for own in (to_feather, read_feather):
        usual = getattr(module, own.__name__)
        own.__doc__, own.__module__ = usual.__doc__, usual.__module__
        own.__qualname__, own.__annotations__ = usual.__qualname__, usual.__annotations__
        setattr(module, own.__name__, own)
