"""Keeps matplotlib's fonts in memory instead of as open files, with their tables and their size.

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
    _keep_size(module.ft2font.FT2Font)


def _keep_tables(font_class):
    """Lets a font cache its tables: laying out a text asks for two of them each time."""
    read = font_class.get_sfnt_table
    kept = weakref.WeakKeyDictionary()

    @functools.wraps(read)
    def get_sfnt_table(self, name):
        tables = kept.get(self)
        if tables is None:
            tables = kept[self] = {}
        if name not in tables:
            tables[name] = read(self, name)
        table = tables[name]
        return None if table is None else table.copy()

    font_class.get_sfnt_table = get_sfnt_table


def _keep_size(font_class):
    """Sets a font's size only if it differs: drawing a text sets it again for each glyph.

    Setting a size prepares the font's hinting again, which takes longer than drawing a glyph.
    """
    change = font_class.set_size
    # One call for all fonts, because a font also sets the size of those that it falls back on.
    latest = (None, None, None)

    @functools.wraps(change)
    def set_size(self, ptsize, dpi):
        nonlocal latest
        font, size, resolution = latest
        if font is not self or ptsize != size or dpi != resolution:
            latest = (None, None, None)
            change(self, ptsize, dpi)
            latest = (self, ptsize, dpi)

    font_class.set_size = set_size


def _open(path, mode="r", *args, **kwargs):
    if mode == "rb":
        return _FontFile(path)
    return open(path, mode, *args, **kwargs)
