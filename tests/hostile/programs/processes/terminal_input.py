# aim = "outside"
# tries = "Types a command on the user's terminal by an ioctl."
# control = "the control has no terminal"
import fcntl
import termios

for letter in "echo planted > @OUTSIDE@/planted.txt\n":
    for handle in (0, 1, 2):
        try:
            fcntl.ioctl(handle, termios.TIOCSTI, letter.encode())
        except OSError:
            pass
