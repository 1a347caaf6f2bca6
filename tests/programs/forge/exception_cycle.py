error = ValueError("round")
error.__cause__ = error
other = KeyError("about")
other.__cause__ = error
error.__context__ = other
raise other

# expect error: "KeyError: 'about'"
# expect line: 6
