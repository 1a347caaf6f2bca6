# aim = "contact"
# tries = "Calls a procedure on the port."
import xmlrpc.client

xmlrpc.client.ServerProxy("http://127.0.0.1:@PORT@/").steal()
