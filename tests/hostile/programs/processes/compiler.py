# aim = "outside"
# tries = "Has a build tool run its compiler."
import os
import sysconfig

os.environ["CC"] = "echo planted > @OUTSIDE@/planted.txt; true"
import _osx_support

_osx_support._read_output(os.environ["CC"])
