# aim = "answer"
# tries = "Leaves a file whose name is no text."
# control = "the control's answer quotes the name, and its reader takes it"
import os

os.close(os.open(b"\xff\xfe.txt", os.O_CREAT | os.O_WRONLY, 0o600))
