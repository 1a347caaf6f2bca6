# aim = "contact"
# tries = "Sends mail to the port."
import smtplib

smtplib.SMTP("127.0.0.1", int("@PORT@"), timeout=1)
