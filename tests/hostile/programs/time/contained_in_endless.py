# aim = "time"
# tries = "Searches an endless iterator by `in`."
import itertools

2 in itertools.repeat(1)
