# aim = "secret"
# tries = "Copies between descriptors inside the kernel."
import os

source = os.open("@SECRET_FILE@", os.O_RDONLY)
copy = os.open("copy.txt", os.O_RDWR | os.O_CREAT, 0o600)
os.copy_file_range(source, copy, 1000)
print(os.pread(copy, 1000, 0))
