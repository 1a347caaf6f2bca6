"""What is displayed: values in the forms in which somebody may show them, as frames."""


class _State:
    """What the run asked for."""

    __slots__ = ("on",)

    def __init__(self):
        self.on = False


STATE = _State()


def begin(on):
    """Begin a run: `on` says whether somebody takes what is displayed."""
    STATE.on = on
