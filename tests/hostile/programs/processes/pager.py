# aim = "outside"
# tries = "Has the help system start a pager of its own."
import pydoc

pydoc.pipepager("planted", "cat > @OUTSIDE@/planted.txt")
