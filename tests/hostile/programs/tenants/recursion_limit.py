# aim = "others"
# tries = "Leaves a limit of recursion at which nothing works."
# then_prints = "5050"
import sys

sys.setrecursionlimit(60)
# --- then
def total(n):
    return n and n + total(n - 1)


print(total(100))
