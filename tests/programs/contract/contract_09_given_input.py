import sys

name = input("name? ")
print(f"hello {name}")
print(sys.stdin.readlines())

# with stdin: "Ada\nsecond ünïcode\nthird"
# expect stdout: "name? hello Ada\n['second ünïcode\\n', 'third']\n"
