# aim = "secret"
# tries = "Gets the host's frames from the traceback of an exception that it raises."
def climb():
    try:
        raise ValueError
    except ValueError as error:
        return error.__traceback__.tb_frame


frame = climb()
while frame.f_back:
    frame = frame.f_back
print({k: str(v)[:2000] for k, v in frame.f_globals.items()})
