"""Looks for what the host's environment says."""

import os

from attempts import attempt

attempt("path", lambda: os.environ["PATH"])
attempt("path by getenv", lambda: os.getenv("PATH"))
attempt("parent process", lambda: os.getppid())
attempt("login", lambda: os.getuid() is not None)
attempt("load", lambda: os.getloadavg())  # noqa: PLW0108
attempt("processors' affinity", lambda: os.sched_getaffinity(0))
