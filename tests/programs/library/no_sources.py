"""Sources of libraries are not there, and the error says what is."""

import inspect
import json


def own():
    return 1


print(inspect.getsource(own).split()[1], str(inspect.signature(json.loads))[:3])
inspect.getsource(json.loads)

# expect kind: "exception"
# expect stdout: "own(): (s,\n"
# expect hint has: ["compiled code"]
