# aim = "secret"
# tries = "Learns the content by a file's name in a listing of the host."
import os

print(os.listdir("@SECRET_FILE@".rpartition("/")[0] + "/names"))
