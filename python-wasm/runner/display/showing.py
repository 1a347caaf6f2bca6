"""Replacements for the libraries' `show` and `savefig`."""

import functools
import sys

from _belljar.display import drawings, figures, pictures, shortcuts
from _belljar.protocol import guard, hooks
from _belljar.source import originals


def install():
    hooks.when_imported("matplotlib._pylab_helpers", _patch_registry)
    hooks.when_imported("matplotlib.backend_bases", _patch_canvas)
    hooks.when_imported("matplotlib.backends.backend_agg", _patch_agg)
    hooks.when_imported("matplotlib.figure", _patch_figure)
    hooks.when_imported("matplotlib.pyplot", _patch_pyplot)
    hooks.when_imported("matplotlib", shortcuts.patch_settings)
    hooks.when_imported("matplotlib.axis", shortcuts.patch_ticks)
    hooks.when_imported("matplotlib.font_manager", shortcuts.patch_fonts)
    hooks.when_imported("matplotlib.markers", shortcuts.patch_markers)
    hooks.when_imported("matplotlib.text", shortcuts.patch_layout)
    hooks.when_imported("PIL.Image", _patch_image)
    hooks.when_imported("PIL.ImageFile", pictures.patch)
    hooks.when_imported("pandas", _learn_pandas)
    hooks.when_imported("plotly.basedatatypes", _patch_plotly_figure)
    hooks.when_imported("plotly.io._renderers", _patch_plotly_renderers)


def _learn_pandas(module):
    originals.learn()


def _patch_registry(module):
    """A new figure replaces the figure that was shown."""
    registry = module.Gcf
    original = registry._set_new_active_manager

    @functools.wraps(original)
    def set_new_active_manager(cls, manager):
        figures.STATE.shown = None
        original(manager)

    registry._set_new_active_manager = classmethod(set_new_active_manager)


def _patch_canvas(module):
    original = module.FigureCanvasBase.print_figure

    @functools.wraps(original)
    def print_figure(self, filename, *args, **kwargs):
        before = figures.picture_of(self.figure)
        result = original(self, filename, *args, **kwargs)
        kind = kwargs.get("format") or self.get_default_filetype()
        figures.saved(self.figure, before, filename, kind, None if args else kwargs)
        return result

    module.FigureCanvasBase.print_figure = hooks.as_part_of(module, print_figure)


def _patch_agg(module):
    """Compress PNG files with less effort, and postpone a drawing until it is needed."""
    canvas = module.FigureCanvasAgg
    print_png, draw = canvas.print_png, canvas.draw

    @functools.wraps(print_png)
    def print_plot(self, *args, **kwargs):
        return pictures.of_plot(print_png, self, *args, **kwargs)

    @functools.wraps(draw)
    def draw_now(self):
        self._belljar_due = False
        draw(self)

    def drawn_before(method):
        @functools.wraps(method)
        def call(self):
            if self._belljar_due:
                self.draw()
            return method(self)

        return hooks.as_part_of(module, call)

    canvas._belljar_due = False
    canvas.print_png = hooks.as_part_of(module, print_plot)
    canvas.draw = hooks.as_part_of(module, draw_now)
    for name in ("get_renderer", "buffer_rgba", "tostring_argb"):
        setattr(canvas, name, drawn_before(getattr(canvas, name)))
    originals.learn()


def _patch_figure(module):
    @functools.wraps(module.Figure.show)
    def show(self, warn=True):
        _captured(figures.capture, self)
        if not sys.modules["matplotlib._pylab_helpers"].Gcf.figs:
            figures.STATE.shown = self

    module.Figure.show = show


def _patch_pyplot(module):
    registry = module._pylab_helpers.Gcf
    pause = module.pause.__code__

    @functools.wraps(module.show)
    def show(*args, **kwargs):
        active = registry.get_active()
        if active is None:
            print("No active figure to save.", file=sys.stdout)
            return
        # A separate window stays open if the code does not wait for its end.
        stays = kwargs.get("block") is False
        # A pause shows figures that were not shown yet, but not each frame of an animation.
        pauses = sys._getframe(1).f_code is pause
        with originals.restored():
            for _, manager in figures.in_order(registry.figs):
                figure = manager.canvas.figure
                if not (pauses and figures.is_known(figure)):
                    _captured(figures.capture_changed, figure)
                if not stays:
                    registry.destroy_fig(figure)
        if not stays:
            figures.STATE.shown = active.canvas.figure

    @functools.wraps(module.savefig)
    def savefig(*args, **kwargs):
        figure = figures.STATE.shown
        if figure is None or registry.figs:
            figure = module.gcf()
        result = figure.savefig(*args, **kwargs)
        _redraw(figure, kwargs)
        return result

    module.show = drawings.STATE.show = show
    module.savefig = hooks.as_part_of(module, savefig)
    originals.learn()


def _redraw(figure, options):
    """Postpones what matplotlib draws for a window after saving until it is needed.

    It is done at once if it may have other effects.
    """
    canvas = figure.canvas
    module = sys.modules.get("matplotlib.backends.backend_agg")
    agg = getattr(module, "FigureCanvasAgg", None)
    is_rearranged = drawings.is_arranged(figure) and _resolution(options) not in (
        "figure",
        figure.dpi,
    )
    if type(canvas) is agg and not drawings.is_watched(canvas) and not is_rearranged:
        canvas._belljar_due = True
    else:
        canvas.draw_idle()


def _resolution(options):
    given = options.get("dpi")
    return sys.modules["matplotlib"].rcParams["savefig.dpi"] if given is None else given


def _captured(capture, shown):
    """A capture inside user code: a failure costs the figure, not the run, except interrupts."""
    try:
        with originals.restored():
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
