"""The line is one of the code that was handed over, also when a module of its own fails."""

with open("helper.py", "w") as file:
    file.write("def fail():\n    raise OSError('helper failed')\n")

import helper  # noqa: E402

helper.fail()

# expect error: "OSError: helper failed"
# expect line: 8
# expect stderr has: ["helper.py\", line 2, in fail", "raise OSError('helper failed')"]
