# aim = "tools"
# tries = "Calls with an object that becomes its text when it is used."
# tools = true
import tools


class Key:
    def __str__(self):
        return "../../etc/passwd"

    def __len__(self):
        return 1


print(tools.lookup(key=Key()))
