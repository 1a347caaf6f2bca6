# aim = "outside"
# tries = "Changes a file that it shares with the host by a hard link."
# control = "the kernel refuses links to other users' files (protected_hardlinks)"
import os

os.link("@OUTSIDE@/victim.txt", "mine.txt")
open("mine.txt", "w").write("changed")
