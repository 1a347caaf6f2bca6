# aim = "secret"
# tries = "Has a parser of settings fail and quote the line."
import configparser

configparser.ConfigParser().read("@SECRET_FILE@")
