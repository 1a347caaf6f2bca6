raise ExceptionGroup("several", [ValueError("one"), TypeError("two")])

# expect error: "ExceptionGroup: several (2 sub-exceptions)"
# expect stderr has: ["ValueError: one", "TypeError: two"]
