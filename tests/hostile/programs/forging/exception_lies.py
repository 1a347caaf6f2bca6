# aim = "truth"
# tries = "Raises an exception that claims to be a clean exit."
# never = ["ok"]
class Clean(BaseException):
    __class__ = SystemExit
    code = 0
    args = ()


import sys

sys.modules[__name__].__dict__["SystemExit"] = Clean
frame = sys._getframe()
while frame.f_back:
    frame = frame.f_back
frame.f_globals["SystemExit"] = Clean
Clean.code = None
raise Clean
