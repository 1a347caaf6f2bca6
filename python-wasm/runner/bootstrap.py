"""Loads the runner into a booted interpreter; runs once, in `__main__`, while an image is baked.

The host sends the source of every module of the runner, and `loading` does the rest. No name is
left in `__main__`.
"""


def _belljar_boot():
    import builtins
    import json

    import _host

    sources = dict(json.loads(_host.call(b"l"))["modules"])
    code = compile(sources.pop("loading"), "<belljar>/loading.py", "exec", dont_inherit=True)
    names = {"__name__": "_belljar.loading", "__builtins__": dict(builtins.__dict__)}
    exec(code, names)
    names["load"](sources)


try:
    _belljar_boot()
finally:
    del _belljar_boot
