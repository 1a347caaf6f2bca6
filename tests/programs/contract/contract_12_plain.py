result = {
    "null": None,
    "bools": [True, False],
    "ints": [0, -1, 2**53 + 1, 2**63, -(2**63)],
    "floats": [0.1, -0.0, 1e300, 5e-324],
    "text": "ünïcode \U0001f600 \x00 \"quoted\" \\ \n",
    "empty": [{}, [], ""],
    "nested": {"a": {"b": [{"c": 1}]}},
}

# expect result: {"null": null, "bools": [true, false], "ints": [0, -1, 9007199254740993, 9223372036854775808, -9223372036854775808], "floats": [0.1, -0.0, 1e300, 5e-324], "text": "ünïcode 😀 \u0000 \"quoted\" \\ \n", "empty": [{}, [], ""], "nested": {"a": {"b": [{"c": 1}]}}}
