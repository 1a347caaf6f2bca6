"""Adapters for sandboxes, each with `start`, `attack(program)` and `stop`."""

from . import belljar_command, belljar_server, caged

TARGETS = {
    "belljar-command": belljar_command.Command,
    "belljar-server": belljar_server.Server,
    **{name: caged.named(name) for name in caged.DRIVERS},
}
