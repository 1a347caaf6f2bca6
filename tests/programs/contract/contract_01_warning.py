import warnings

warnings.warn("this will change", DeprecationWarning, stacklevel=1)
print("went on")

# expect stdout: "went on\n"
# expect stderr has: ["DeprecationWarning: this will change"]
