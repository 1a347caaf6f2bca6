# aim = "secret"
# tries = "Opens a `file:` URL."
import urllib.request

print(urllib.request.urlopen("file://@SECRET_FILE@").read())
