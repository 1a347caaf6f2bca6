# aim = "outside"
# tries = "Has the profiler write its figures over a file of the host."
import cProfile

cProfile.run("pass", "@OUTSIDE@/victim.txt")
