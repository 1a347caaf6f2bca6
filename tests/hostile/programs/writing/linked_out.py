# aim = "outside"
# tries = "Gives its own file a second name outside."
import os

open("mine.txt", "w").write("planted")
os.link("mine.txt", "@OUTSIDE@/planted.txt")
