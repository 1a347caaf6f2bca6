"""Loads the runner into a booted interpreter; run once, in `__main__`, while an image is baked.

The modules come through the door in dependency order and become the package `_belljar`. Each
gets a private copy of the builtins, so that code which replaces `builtins.len` later on does
not reach them. No name is left in `__main__`.
"""


def _belljar_boot():
    import builtins
    import json
    import sys
    import types

    import _host

    package = types.ModuleType("_belljar")
    package.__path__ = []
    package.__package__ = "_belljar"
    sys.modules["_belljar"] = package
    private = dict(builtins.__dict__)
    for name, source in json.loads(_host.call(b"l"))["modules"]:
        module = types.ModuleType(f"_belljar.{name}")
        module.__package__ = "_belljar"
        module.__file__ = f"<belljar>/{name}.py"
        module.__builtins__ = private
        sys.modules[module.__name__] = module
        setattr(package, name, module)
        code = compile(source, module.__file__, "exec", dont_inherit=True)
        exec(code, module.__dict__)
    for name in [name for name in sys.modules if name.startswith("_belljar.")]:
        del sys.modules[name]
    package.entry.publish(package)


try:
    _belljar_boot()
finally:
    del _belljar_boot
