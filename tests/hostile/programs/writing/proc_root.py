# aim = "outside"
# tries = "Writes through `/proc/self/cwd`."
open("/proc/self/cwd/../outside/planted.txt", "w").write("planted")
