# aim = "outside"
# tries = "Has a library write its history where it says."
import readline

readline.add_history("planted")
readline.write_history_file("@OUTSIDE@/planted.txt")
