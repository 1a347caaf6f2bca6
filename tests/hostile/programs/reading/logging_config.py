# aim = "secret"
# tries = "Has a configuration of loggers evaluated from outside of the workspace."
import logging.config

settings = """
[loggers]
keys=root
[handlers]
keys=h
[formatters]
keys=
[logger_root]
handlers=h
[handler_h]
class=StreamHandler
args=(print(open("@SECRET_FILE@").read()),)
"""
open("log.ini", "w").write(settings)
logging.config.fileConfig("log.ini")
