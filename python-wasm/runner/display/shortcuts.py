"""Lets matplotlib do less for the same drawing: ticks, markers, fonts, layouts of texts, settings.

A line plot has 22 ticks of five artists each. Making and drawing them reads 3,900 settings, copies
54 markers and looks for the fonts of 80 texts, which was a fifth of the plot's time. The drawing is
the same, pixel for pixel.
"""

import enum
import functools
import os
import sys
import types
import weakref
from itertools import repeat as _repeat

from _belljar.protocol import hooks

_PLAIN = frozenset((bool, float, int, str, tuple, type(None), types.FunctionType))
_MOST = 256  # remembered fonts of a manager, and texts of a renderer
_AGG = "matplotlib.backends.backend_agg"
_LAYOUT = (
    "_rotation _rotation_mode _horizontalalignment _verticalalignment _multialignment _linespacing"
).split()
_modules = sys.modules
_FONT_SETTINGS = tuple(
    f"font.{name}"
    for name in (
        "family style variant weight stretch size serif sans-serif cursive fantasy monospace"
    ).split()
)
_read = dict.__getitem__


class _State:
    __slots__ = ("added", "missed")

    def __init__(self):
        self.added = 0  # fonts that were added to any manager
        self.missed = 0  # searches for fonts that did not find all families, and warned


_STATE = _State()


def patch_settings(module):
    """For `matplotlib`: reading any setting but one is reading a dictionary."""
    usual = module.RcParams.__getitem__

    @functools.wraps(usual)
    def read(self, key):
        return usual(self, key) if key == "backend" else _read(self, key)

    module.RcParams.__getitem__ = hooks.as_part_of(module, read)


def patch_markers(module):
    """For `matplotlib.markers`: the copy of a named marker shares its parts, which never change."""
    marker_class = module.MarkerStyle
    usual = marker_class.__init__

    @functools.wraps(usual)
    def make(self, marker, *args, **kwargs):
        if type(marker) is marker_class is type(self) and not args and not kwargs:
            held = marker.__dict__
            name = held["_marker"]
            if (
                held["_user_transform"] is None
                and type(name) in (int, str)
                and name in marker_class.markers
            ):
                self.__dict__.update(held)
                return
        usual(self, marker, *args, **kwargs)

    marker_class.__init__ = hooks.as_part_of(module, make)


def _all_fonts(library, manager):
    """What the choice of a font depends on besides its properties."""
    settings = map(_read, _repeat(library.rcParams), _FONT_SETTINGS)
    return (
        *[tuple(value) if type(value) is list else value for value in settings],
        len(manager.ttflist),
        len(manager.afmlist),
        _STATE.added,
        os.getenv("MPL_IGNORE_SYSTEM_FONTS"),
    )


def patch_layout(module):
    """For `matplotlib.text`: a plain text is laid out once by a renderer.

    A tick's label is laid out to place the axis' label, to place the title, and to be drawn.
    """
    usual = module.Text._get_layout
    text_class, plain = module.Text, module.FontProperties
    found = weakref.WeakKeyDictionary()

    @functools.wraps(usual)
    def _get_layout(self, renderer):
        held = self.__dict__
        text, font = held["_text"], held["_fontproperties"]
        if (
            type(self) is not text_class
            or type(text) is not str
            or "$" in text
            or type(font) is not plain
            or held["_wrap"]
            or held["_usetex"]
            or held["_transform_rotates_text"]
            or type(renderer) is not getattr(_modules.get(_AGG), "RendererAgg", None)
        ):
            return usual(self, renderer)
        key = (
            text,
            self.get_figure(root=True).dpi,
            renderer.dpi,
            *map(held.get, _LAYOUT),
            *font.__dict__.values(),
            *_all_fonts(module.mpl, module.fontManager),
        )
        kept = found.get(renderer)
        if kept is None:
            kept = found[renderer] = {}
        layout = kept.get(key)
        if layout is None:
            missed = _STATE.missed
            layout = usual(self, renderer)
            # If a family is missing, matplotlib warns for each layout.
            if missed == _STATE.missed:
                if len(kept) >= _MOST:
                    kept.clear()
                kept[key] = layout
        bounds, lines, box = layout
        return bounds, lines.copy(), box

    module.Text._get_layout = hooks.as_part_of(module, _get_layout)


def patch_fonts(module):
    """For `matplotlib.font_manager`: the fonts of a text are looked for once."""
    usual = module.FontManager._find_fonts_by_props
    plain = module.FontProperties
    found = weakref.WeakKeyDictionary()

    @functools.wraps(usual)
    def _find_fonts_by_props(self, prop, *args, **kwargs):
        if type(prop) is not plain or args or kwargs:
            return usual(self, prop, *args, **kwargs)
        # As they are compared by the usual cache, which this one must not outlive.
        key = (*prop.__dict__.values(), *_all_fonts(module.mpl, self))
        kept = found.get(self)
        if kept is None:
            kept = found[self] = {}
        fonts = kept.get(key)
        if fonts is None:
            fonts = usual(self, prop)
            if _has_all(self, prop, fonts):
                if len(kept) >= _MOST:
                    kept.clear()
                kept[key] = tuple(fonts)
            else:
                _STATE.missed += 1
        return list(fonts)

    add = module.FontManager.addfont

    @functools.wraps(add)
    def addfont(self, path):
        add(self, path)
        # matplotlib forgets the fonts it has found only here.
        _STATE.added += 1

    made = hooks.as_part_of(module, _find_fonts_by_props)
    module.FontManager._find_fonts_by_props = made
    module.FontManager.addfont = hooks.as_part_of(module, addfont)


def _has_all(manager, prop, fonts):
    """Whether all families were found; if not, matplotlib warns each time."""
    families = prop.get_family()
    if len(fonts) != len(families):
        return False
    if len(families) == 1:
        # The only font may be the default one. matplotlib has cached the answer.
        try:
            manager.findfont(prop, fallback_to_default=False)
        except ValueError:
            return False
    return True


def patch_ticks(module):
    """For `matplotlib.axis`: of the ticks that are made at once, all but one are copies."""
    axis_class = module.Axis
    tick_of, copy_props = axis_class._get_tick, axis_class._copy_tick_props
    copier = _Copier(module)

    def add(axis, name, count, is_major):
        kind = type(axis)
        missing = count - len(getattr(axis, name))
        if missing < 2 or kind._get_tick is not tick_of or kind._copy_tick_props is not copy_props:
            return
        first = tick_of(axis, major=is_major)
        for tick in (first, *copier.copies(first, missing - 1)):
            ticks = getattr(axis, name)
            ticks.append(tick)
            copy_props(axis, ticks[0], tick)

    def patch(usual, name, locations, is_major):
        @functools.wraps(usual)
        def get_ticks(self, numticks=None):
            if numticks is None:
                numticks = len(getattr(self, locations)())
            add(self, name, numticks, is_major)
            return usual(self, numticks)

        return hooks.as_part_of(module, get_ticks)

    hooks.as_part_of(module, add)
    for size, is_major in (("major", True), ("minor", False)):
        usual = getattr(axis_class, f"get_{size}_ticks")
        made = patch(usual, f"{size}Ticks", f"get_{size}ticklocs", is_major)
        setattr(axis_class, f"get_{size}_ticks", made)


class _Copier:
    """Copies a tick that nothing but its own constructor has changed."""

    _PARTS = "tick1line", "tick2line", "gridline", "label1", "label2"

    def __init__(self, axis):
        self._line, self._text = axis.mlines.Line2D, axis.mtext.Text
        self._ticks = axis.XTick, axis.YTick
        self._registry = axis.cbook.CallbackRegistry
        font, array = axis.mtext.FontProperties, axis.np.ndarray
        self._makers = {list: list.copy, array: array.copy, font: font.copy}
        self._shared = axis.martist.Artist, axis.mtransforms.Transform, enum.Enum
        self._values = _PLAIN | {axis.mlines.MarkerStyle, axis.mlines.Path}

    def copies(self, tick, count):
        """So many of them; none if one of its parts has something that is not known here."""
        if type(tick) not in self._ticks:
            return ()
        held = vars(tick)
        parts = [held[name] for name in self._PARTS]
        if [type(part) for part in parts] != [self._line] * 3 + [self._text] * 2:
            return ()
        # What a line has computed so far is computed again before it is used.
        if not all(line._invalidx for line in parts[:3]):
            return ()
        plans = [self._plan(artist) for artist in (tick, *parts)]
        if None in plans:
            return ()
        return [self._copy(plans) for _ in range(count)]

    def _plan(self, artist):
        """The class, what copies share, and what is made for each; None if that is not known."""
        shared, made = {}, []
        for name, value in vars(artist).items():
            kind = type(value)
            if kind in self._values or isinstance(value, self._shared):
                shared[name] = value
            elif kind in self._makers:
                made.append((name, self._makers[kind], value))
            elif kind is self._registry and not value.callbacks:
                made.append((name, _registry_like, value))
            else:
                return None
        return type(artist), shared, made

    def _copy(self, plans):
        artists = []
        for kind, shared, made in plans:
            artist = kind.__new__(kind)
            held = vars(artist)
            held.update(shared)
            for name, make, value in made:
                held[name] = make(value)
            artists.append(artist)
        tick, *parts = artists
        vars(tick).update(zip(self._PARTS, parts, strict=True))
        return tick


def _registry_like(registry):
    return type(registry)(registry.exception_handler, signals=registry._signals)
