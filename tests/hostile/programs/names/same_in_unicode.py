# aim = "answer"
# tries = "Leaves files whose names differ only in how letters are composed."
# control = "the control's file system tells them apart"
open("\u00e9.txt", "w").write("one")
open("e\u0301.txt", "w").write("two")
open("A.txt", "w").close()
open("a.txt", "w").close()
