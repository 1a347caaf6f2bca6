# aim = "outside"
# tries = "Writes a file of the host by its absolute path."
open("@OUTSIDE@/planted.txt", "w").write("planted")
