"""What takes the place of the libraries' own `show` and `savefig`."""

import functools
import os
import sys

from _belljar import figures, guard, hooks


def install():
    hooks.when_imported("matplotlib.backend_bases", _patch_canvas)
    hooks.when_imported("matplotlib.figure", _patch_figure)
    hooks.when_imported("matplotlib.pyplot", _patch_pyplot)
    hooks.when_imported("PIL.Image", _patch_image)
    hooks.when_imported("plotly.basedatatypes", _patch_plotly_figure)
    hooks.when_imported("plotly.io._renderers", _patch_plotly_renderers)


def _patch_canvas(module):
    original = module.FigureCanvasBase.print_figure

    @functools.wraps(original)
    def print_figure(self, filename, *args, **kwargs):
        result = original(self, filename, *args, **kwargs)
        kind = kwargs.get("format") or self.get_default_filetype()
        figures.saved(filename, kind)
        return result

    module.FigureCanvasBase.print_figure = _as_part_of(module, print_figure)


def _as_part_of(module, function):
    """The function as if its file were the module's neighbour.

    matplotlib attributes a warning to the first frame that is not in its own directory.
    """
    code = function.__code__
    folder = os.path.dirname(module.__file__)
    function.__code__ = code.replace(co_filename=f"{folder}/{code.co_filename}")
    return function


def _patch_figure(module):
    @functools.wraps(module.Figure.show)
    def show(self, warn=True):
        _show_figure(self)

    module.Figure.show = show


def _patch_pyplot(module):
    @functools.wraps(module.show)
    def show(*args, **kwargs):
        manager = sys.modules["matplotlib._pylab_helpers"].Gcf.get_active()
        if manager is None:
            print("No active figure to save.", file=sys.stdout)
        else:
            _show_figure(manager.canvas.figure)

    module.show = show


def _show_figure(figure):
    """Capture, then close: what was shown is not captured again at the end."""
    _captured(figures.capture, figure)
    sys.modules["matplotlib._pylab_helpers"].Gcf.destroy_fig(figure)


def _captured(capture, shown):
    """A capture inside user code: failing costs the figure, not the run; an interrupt is one."""
    try:
        capture(shown)
    except Exception as error:
        guard.note(f"A figure cannot be drawn: {guard.describe(error)}")


def _patch_image(module):
    @functools.wraps(module.Image.show)
    def show(self, title=None):
        _captured(figures.capture_image, self)

    module.Image.show = show


def _patch_plotly_figure(module):
    @functools.wraps(module.BaseFigure.show)
    def show(self, *args, **kwargs):
        _captured(figures.capture_plotly, self)

    module.BaseFigure.show = show


def _patch_plotly_renderers(module):
    @functools.wraps(module.show)
    def show(fig, *args, **kwargs):
        if hasattr(fig, "to_html"):
            _captured(figures.capture_plotly, fig)
        else:
            graph_objects = __import__("plotly.graph_objects").graph_objects
            _captured(figures.capture_plotly, graph_objects.Figure(fig))

    module.show = show
