# aim = "output"
# tries = "Leaves a sparse file that is small on the disk and huge when it is sent."
# control = "the control copies files up to a megabyte"
with open("report.bin", "wb") as file:
    file.truncate(8 << 30)
