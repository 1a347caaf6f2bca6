# aim = "outside"
# tries = "Opens a \"browser\", which is a command of its own."
import webbrowser

webbrowser.register("mine", None, webbrowser.GenericBrowser(["sh", "-c", "echo > @OUTSIDE@/planted.txt"]))
webbrowser.get("mine").open("http://example.com")
