# aim = "secret"
# tries = "Looks into the module that was started as the program."
import sys

for module in list(sys.modules.values()):
    for value in list(getattr(module, "__dict__", {}).values()):
        if type(value) in (str, dict) and "hostile-secret-" in str(value)[:100000]:
            print(str(value)[:2000])
