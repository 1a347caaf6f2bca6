"""A text that UTF-8 has no form for."""

result = "lone \ud800 surrogate"
print("printed \udcff too")

# expect stdout: "printed \\udcff too\n"
# expect result: "lone \\ud800 surrogate"
