# aim = "others"
# tries = "Changes how arrays of the next one behave and print."
# needs = ["numpy"]
# then_prints = "[1.5]"
import numpy

numpy.set_printoptions(formatter={"all": lambda x: "owned"})
# --- then
import numpy

print(numpy.array([1.5]))
