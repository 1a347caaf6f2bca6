"""A bundle for belljar, which uses it unless a bundle or a cache is named."""

import os.path

BUNDLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bundle")
