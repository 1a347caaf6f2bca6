# aim = "contact"
# tries = "Spells the address as one number, past a list of names."
import http.client

connection = http.client.HTTPConnection("2130706433", int("@PORT@"), timeout=1)
connection.request("GET", "/")
