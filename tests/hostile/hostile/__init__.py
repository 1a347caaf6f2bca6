"""Runs hostile programs against something that claims to contain them, and judges what came of it.

`program` reads them, `place` is what each may attack, `observe` watches, `judge` decides, and
`targets` has an adapter for each thing that runs Python.
"""
