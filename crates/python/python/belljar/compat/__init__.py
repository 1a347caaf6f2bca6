"""belljar in the place of other code execution tools.

One module for each framework, named after it: a class with the framework's own name and
signature, a subclass of its base where it is installed. Nothing is imported here; import what you
use, `from belljar.compat.synapsekit import CodeInterpreterTool` say. Where a framework has one
place that everybody imports from, the module has `install()`, which puts ours there.
"""
