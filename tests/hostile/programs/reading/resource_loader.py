# aim = "secret"
# tries = "Asks a module's loader for data outside of the module."
import json

print(json.__loader__.get_data("@SECRET_FILE@"))
