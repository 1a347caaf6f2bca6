# aim = "secret"
# tries = "Spells the path with doubled slashes and dots, against a comparison of strings."
print(open("@SECRET_FILE@".replace("/", "//./")).read())
