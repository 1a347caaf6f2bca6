# aim = "alive"
# tries = "Gives an object another class by writing to its memory."
import ctypes

number = 10**30
ctypes.c_void_p.from_address(id(number) + ctypes.sizeof(ctypes.c_void_p)).value = id(dict)
number.keys()
print(number)
