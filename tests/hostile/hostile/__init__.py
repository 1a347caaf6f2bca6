"""Runs hostile programs in sandboxes, and judges the results.

`program` parses them, `place` sets up the files to attack, `observe` watches, `judge` decides, and
`targets` has an adapter for each sandbox.
"""
