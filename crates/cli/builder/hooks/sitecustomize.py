"""Makes the backend subprocess of `pip download` use `sdist_backend`."""

import os

if "_PYPROJECT_HOOKS_BUILD_BACKEND" in os.environ:
    os.environ["_PYPROJECT_HOOKS_BUILD_BACKEND"] = "sdist_backend"
    os.environ.pop("_PYPROJECT_HOOKS_BACKEND_PATH_JSON", None)
