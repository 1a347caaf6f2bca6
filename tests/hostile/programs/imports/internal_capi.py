# aim = "alive"
# tries = "Uses the modules by which the interpreter is tested, which check nothing."
# control = "most builds leave these modules out"
import _testcapi

_testcapi.crash_no_current_thread()
