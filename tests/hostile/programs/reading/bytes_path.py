# aim = "secret"
# tries = "Names the file in bytes, where a guard looks at text only."
print(open(b"@SECRET_FILE@").read())
