# aim = "time"
# tries = "Searches with the worst needle for the search by two ways."
needle = "a" * 500_000 + "b" + "a" * 500_000
haystack = "a" * 5_000_000
while True:
    haystack.find(needle)
    haystack.count("a" * 1000 + "b")
