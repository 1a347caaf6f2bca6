# aim = "contact"
# tries = "Asks a service of the host by HTTP."
import urllib.request

urllib.request.urlopen("http://127.0.0.1:@PORT@/latest/meta-data/", timeout=1).read()
