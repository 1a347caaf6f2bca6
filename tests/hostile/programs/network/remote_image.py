# aim = "contact"
# tries = "Has a plot's picture read from a URL."
# needs = ["numpy"]
import numpy

numpy.lib.npyio.DataSource().open("http://127.0.0.1:@PORT@/data.npy")
