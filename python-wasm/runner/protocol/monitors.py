"""Removes `sys.monitoring` callbacks left by the code.

A callback may raise whenever a function of the runner starts or calls anything. So the first steps,
which the caller must do inline, call nothing: these iterators are created while the image is baked,
and a `for` over one does a step of its work without a visible call.

    for _ in monitors.TOOLS:
        for tool in monitors.names:
            break
        if tool is not None:
            for _ in monitors.CALLBACKS:
                for _ in monitors.unregister:
                    break
"""

import itertools
import sys

_monitoring = getattr(sys, "monitoring", None)

if _monitoring is None:
    TOOLS = CALLBACKS = ()
    names = unregister = iter(())
else:
    TOOLS = tuple(range(6))
    _EVENTS = tuple(
        value
        for name, value in vars(_monitoring.events).items()
        if type(value) is int and value and not value & (value - 1)
    )
    CALLBACKS = tuple(itertools.product(TOOLS, _EVENTS))
    _get_tool = _monitoring.get_tool
    names = map(_get_tool, itertools.cycle(TOOLS))
    unregister = itertools.starmap(
        _monitoring.register_callback,
        itertools.cycle([(tool, event, None) for tool, event in CALLBACKS]),
    )


def free():
    """Free all tools, now that none of them is called."""
    for tool, name in enumerate(map(_get_tool, TOOLS)):
        if name is not None:
            _monitoring.set_events(tool, 0)
            _monitoring.free_tool_id(tool)
