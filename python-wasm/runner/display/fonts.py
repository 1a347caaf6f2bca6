"""Keeps matplotlib's fonts in memory instead of as open files, and caches their tables.

matplotlib never closes a font once it is loaded. An image cannot hold an open file, and every glyph
is read from the file. So a font's file is read once and replaced by its bytes; fonts loaded while
an image is baked are ready in every run.
"""

import functools
import io
import weakref


class _FontFile(io.BytesIO):
    """A file's bytes under its name, which matplotlib asks for."""

    def __init__(self, path):
        with open(path, "rb") as file:
            super().__init__(file.read())
        self.name = path


def patch(module):
    """For `matplotlib.font_manager`."""
    cached = module._get_font
    load = cached.__wrapped__

    @functools.wraps(load)
    def load_into_memory(*args, **kwargs):
        # The font object opens its file with this function.
        usual = io.open
        io.open = _open
        try:
            return load(*args, **kwargs)
        finally:
            io.open = usual

    module._get_font = functools.lru_cache(**cached.cache_parameters())(load_into_memory)
    _keep_tables(module.ft2font.FT2Font)


def _keep_tables(font_class):
    """Lets a font cache its tables: laying out a text asks for two of them each time."""
    read = font_class.get_sfnt_table
    kept = weakref.WeakKeyDictionary()

    @functools.wraps(read)
    def get_sfnt_table(self, name):
        tables = kept.setdefault(self, {})
        if name not in tables:
            tables[name] = read(self, name)
        table = tables[name]
        return None if table is None else table.copy()

    font_class.get_sfnt_table = get_sfnt_table


def _open(path, mode="r", *args, **kwargs):
    if mode == "rb":
        return _FontFile(path)
    return open(path, mode, *args, **kwargs)
