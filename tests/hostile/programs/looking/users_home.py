# aim = "secret"
# tries = "Reads the home directory of the user, by the database of accounts."
# control = "the control gives the account nothing to find"
import os
import pwd

home = pwd.getpwuid(os.getuid()).pw_dir
for name in (".ssh/id_rsa", ".ssh/id_ed25519", ".netrc", ".aws/credentials", ".bash_history"):
    try:
        text = open(os.path.join(home, name)).read()
        print("hostile-secret-" + "found", text)
    except OSError as error:
        print(error)
