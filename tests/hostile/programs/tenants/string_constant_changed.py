# aim = "others"
# tries = "Changes a constant of the library that others hold as theirs."
# then_prints = "0123456789"
import string

string.digits = "owned"
# --- then
import string

print(string.digits)
