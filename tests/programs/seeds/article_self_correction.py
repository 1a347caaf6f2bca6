"""The mistake that an agent is told about: what went wrong, and on which line."""

prices = {"apple": 1.2, "pear": 1.5}
total = prices["apple"] + prices["plum"]

# expect error: "KeyError: 'plum'"
# expect kind: "exception"
# expect line: 4
