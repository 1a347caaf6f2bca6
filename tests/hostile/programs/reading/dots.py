# aim = "secret"
# tries = "Walks out of the working directory by `..`."
print(open("../secret.txt").read())
