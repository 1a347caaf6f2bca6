import os
from subprocess import run

value = eval("1")
kind = value.__class__
kinds = kind.__subclasses__()
with open("x") as file:
    pass
found = getattr(kind, "__globals__")

# with policy: strict
# expect kind: "policy"
# expect error: "SecurityError: Forbidden import: os; Forbidden import: subprocess; Forbidden operation: eval; Forbidden attribute: __class__; Forbidden attribute: __subclasses__; Forbidden operation: open; Forbidden operation: getattr; Forbidden attribute: __globals__"
# expect violation lines: [1, 2, 4, 5, 6, 7, 9, 9]
# expect stdout: ""
# expect files: []
