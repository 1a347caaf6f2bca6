"""Drop-in replacements for other code execution tools.

There is a module for each framework, named after it, with a class of the framework's own name and
signature that subclasses its base class if installed. Import the module that you need, such as
`from belljar.compat.synapsekit import CodeInterpreterTool`. For frameworks with a central module,
`install()` replaces the framework's class with ours.
"""
