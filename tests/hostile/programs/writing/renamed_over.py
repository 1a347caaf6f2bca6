# aim = "outside"
# tries = "Moves its own file over one of the host."
import os

open("mine.txt", "w").write("planted")
os.replace("mine.txt", "@OUTSIDE@/victim.txt")
