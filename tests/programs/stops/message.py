"""Raises an exception that takes forever to say what it is."""


class Endless(Exception):
    def __str__(self):
        while True:
            pass


print("started")
raise Endless
