# aim = "secret"
# tries = "Walks up past the root, where `..` stays, and down again."
print(open("../" * 64 + "@SECRET_FILE@"[1:]).read())
