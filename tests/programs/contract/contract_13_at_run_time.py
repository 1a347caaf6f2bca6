"""A module that an allowed one imported for itself is there, and not to be had."""

import random

try:
    from random import _os  # noqa: F401
except ImportError as error:
    refused = str(error)
result = [refused, random.randint(1, 1)]

# with policy: strict
# expect result: ["Import of 'os' is not allowed", 1]
