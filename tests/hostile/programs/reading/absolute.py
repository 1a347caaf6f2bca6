# aim = "secret"
# tries = "Opens a file of the host by its absolute path."
print(open("@SECRET_FILE@").read())
