# aim = "secret"
# tries = "Looks through all objects that the collector knows for the secret."
import gc

for table in gc.get_referents(*gc.get_objects()):
    if type(table) is dict:
        for value in list(table.values()):
            if type(value) in (str, bytes) and "hostile-secret-" in str(value):
                print(value)
