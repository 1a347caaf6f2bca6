# aim = "outside"
# tries = "Empties a file of the host by opening it."
open("@OUTSIDE@/victim.txt", "w").close()
