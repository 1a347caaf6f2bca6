# aim = "secret"
# tries = "Names localhost in the `file:` URL, and encodes the path."
import urllib.request

path = "".join(f"%{byte:02x}" for byte in b"@SECRET_FILE@")
print(urllib.request.urlopen("file://localhost" + path.replace("%2f", "/")).read())
