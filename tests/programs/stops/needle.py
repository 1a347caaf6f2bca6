print("started")
haystack = "a" * 20_000_000
needle = "a" * 10_000_000 + "b" + "a" * 1_000_000
for _ in range(10**9):
    haystack.find(needle)
