# aim = "secret"
# tries = "Reads the file as the user's passwords for FTP."
import netrc

netrc.netrc("@SECRET_FILE@")
