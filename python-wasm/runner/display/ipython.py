"""A minimal `IPython` for code that imports it: only the functions for displays.

The modules are created on first import. Until then only this finder exists, which is asked last, so
that a module of the code takes precedence.
"""

import html
import json
import sys
import types
from importlib.machinery import ModuleSpec

from _belljar.display import bundles, notebook
from _belljar.protocol.inspecting import is_kind

_VERSION = (9, 0, 0, "")


class _State:
    __slots__ = ("shell",)

    def __init__(self):
        self.shell = None


STATE = _State()


def get_ipython():
    """The shell if the code is in IPython's dialect, else None."""
    return STATE.shell


class DisplayObject:
    """Data in one form, for `display`."""

    _form = bundles.PLAIN

    def __init__(self, data=None, url=None, filename=None, metadata=None, **kwargs):
        if is_kind(data, str) and url is None and filename is None:
            url = data if data.startswith(("http://", "https://")) and "\n" not in data else None
        self.data, self.url, self.filename = data, url, filename
        self.metadata = dict(metadata or {})
        for name, value in kwargs.items():
            setattr(self, name, value)
        self.reload()

    def reload(self):
        """Read the file, if the data comes from one."""
        if self.filename is not None:
            with open(self.filename, encoding="utf-8") as file:
                self.data = file.read()

    def __repr__(self):
        return f"<IPython.core.display.{type(self).__name__} object>"

    def _repr_mimebundle_(self, include=None, exclude=None):
        known = {self._form: self.metadata} if self.metadata else {}
        return {self._form: self.data}, known


class TextDisplayObject(DisplayObject):
    """Text in one form."""


class Pretty(TextDisplayObject):
    def __repr__(self):
        return str(self.data)


class HTML(TextDisplayObject):
    _form = "text/html"

    def _repr_html_(self):
        return self.data

    __html__ = _repr_html_


class Markdown(TextDisplayObject):
    _form = "text/markdown"


class Latex(TextDisplayObject):
    _form = "text/latex"


class Math(TextDisplayObject):
    _form = "text/latex"

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {self._form: f"$\\displaystyle {str(self.data).strip('$')}$"}


class SVG(DisplayObject):
    _form = "image/svg+xml"


class JSON(DisplayObject):
    _form = "application/json"

    def __init__(self, data=None, url=None, filename=None, expanded=False, root="root", **kwargs):
        self.expanded, self.root = expanded, root
        super().__init__(data, url, filename, **kwargs)

    def _repr_mimebundle_(self, include=None, exclude=None):
        data = json.loads(self.data) if is_kind(self.data, str) else self.data
        known = {"expanded": self.expanded, "root": self.root, **self.metadata}
        return {self._form: data}, {self._form: known}


class GeoJSON(JSON):
    _form = "application/geo+json"


class Javascript(TextDisplayObject):
    _form = "application/javascript"

    def __init__(self, data=None, url=None, filename=None, lib=None, css=None, **kwargs):
        self.lib, self.css = lib, css
        super().__init__(data, url, filename, **kwargs)


class Code(TextDisplayObject):
    """Source code."""

    def __init__(self, data=None, url=None, filename=None, language=None, **kwargs):
        self.language = language
        super().__init__(data, url, filename, **kwargs)

    def __repr__(self):
        return str(self.data)

    def _repr_mimebundle_(self, include=None, exclude=None):
        text = str(self.data)
        return {bundles.PLAIN: text, "text/html": f"<pre>{html.escape(text)}</pre>"}


class Image(DisplayObject):
    """A picture: bytes, a file, or a URL for the reader to load."""

    _FORMATS = {"png": "image/png", "jpeg": "image/jpeg", "jpg": "image/jpeg", "gif": "image/gif"}

    def __init__(
        self,
        data=None,
        url=None,
        filename=None,
        format=None,
        embed=None,
        width=None,
        height=None,
        retina=False,
        unconfined=False,
        metadata=None,
        alt=None,
    ):
        self.width, self.height, self.alt, self.embed = width, height, alt, embed
        if is_kind(data, str) and not data.startswith(("http://", "https://")):
            data, filename = None, data
        elif hasattr(data, "__fspath__"):
            data, filename = None, data.__fspath__()
        self.format = format
        super().__init__(data, url, filename, metadata)

    def reload(self):
        if self.filename is not None:
            with open(self.filename, "rb") as file:
                self.data = file.read()

    def _repr_mimebundle_(self, include=None, exclude=None):
        size = {"width": self.width, "height": self.height}
        known = {name: value for name, value in size.items() if value is not None}
        if self.url is not None:
            known |= {"src": self.url, "alt": self.alt}
            attributes = " ".join(
                f'{name}="{html.escape(str(value))}"'
                for name, value in known.items()
                if value is not None
            )
            return {"text/html": f"<img {attributes}/>"}
        form = self._FORMATS.get(str(self.format or self._guessed()).lower(), "image/png")
        return {form: self.data}, {form: known | self.metadata}

    def _guessed(self):
        if is_kind(self.data, bytes):
            for name, start in (("jpeg", b"\xff\xd8"), ("gif", b"GIF8")):
                if self.data.startswith(start):
                    return name
        return "png"


class IFrame:
    """A page at another URL, in a frame."""

    def __init__(self, src, width, height, extras=None, **kwargs):
        self.src, self.width, self.height = src, width, height

    def _repr_html_(self):
        parts = (f'{name}="{html.escape(str(value))}"' for name, value in vars(self).items())
        return f"<iframe {' '.join(parts)}></iframe>"


class FileLink:
    """The name of a file in the workspace."""

    def __init__(self, path, *args, **kwargs):
        self.path = path

    def __repr__(self):
        return str(self.path)


class ProgressBar:
    """A progress bar, as text that is updated."""

    def __init__(self, total):
        self.total, self.progress = total, 0
        self._handle = None

    def __repr__(self):
        done = int(60 * self.progress / self.total) if self.total else 60
        return f"[{'=' * done}{' ' * (60 - done)}] {self.progress}/{self.total}"

    def display(self):
        self._handle = notebook.display(self, display_id=True)

    def update(self):
        if self._handle is not None:
            self._handle.update(self)

    def __iter__(self):
        self.display()
        self.progress = -1
        return self

    def __next__(self):
        self.progress += 1
        if self.progress >= self.total:
            self.update()
            raise StopIteration
        self.update()
        return self.progress


def _shower(kind):
    def show(*objs, raw=False, metadata=None):
        for value in objs:
            notebook.display(value if hasattr(value, "_repr_mimebundle_") else kind(value))

    show.__name__ = f"display_{kind.__name__.lower()}"
    return show


def set_matplotlib_formats(*formats, **kwargs):
    """Figures have the format that the request asks for."""


_FUNCTIONS = (
    notebook.display,
    notebook.update_display,
    notebook.clear_output,
    notebook.publish_display_data,
    set_matplotlib_formats,
    *map(_shower, (HTML, Markdown, SVG, Latex, JSON, Javascript, Pretty)),
)
_CLASSES = (
    notebook.DisplayHandle,
    DisplayObject,
    TextDisplayObject,
    Pretty,
    HTML,
    Markdown,
    Latex,
    Math,
    SVG,
    JSON,
    GeoJSON,
    Javascript,
    Code,
    Image,
    IFrame,
    FileLink,
    ProgressBar,
)
_DISPLAY = {one.__name__: one for one in (*_FUNCTIONS, *_CLASSES)}
_SHELL = {"get_ipython": get_ipython}
# The names in each module, besides its submodules.
_MODULES = {
    "IPython": {
        "__version__": ".".join(map(str, _VERSION[:3])),
        "version_info": _VERSION,
        **_SHELL,
    },
    "IPython.display": _DISPLAY,
    "IPython.core": {},
    "IPython.core.display": _DISPLAY,
    "IPython.core.display_functions": _DISPLAY,
    "IPython.core.getipython": _SHELL,
    "IPython.core.interactiveshell": {},
}
_PACKAGES = frozenset(("IPython", "IPython.core"))


class _Loader:
    @staticmethod
    def create_module(spec):
        return types.ModuleType(spec.name, "A stand-in with what belongs to displays.")

    @staticmethod
    def exec_module(module):
        held = _MODULES[module.__name__]
        module.__dict__.update(held)
        module.__all__ = [name for name in held if not name.startswith("_")]


class _Finder:
    """Last on `sys.meta_path`."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in _MODULES:
            return None
        return ModuleSpec(name, _Loader, is_package=name in _PACKAGES)


def install():
    if _Finder not in sys.meta_path:
        sys.meta_path.append(_Finder)
