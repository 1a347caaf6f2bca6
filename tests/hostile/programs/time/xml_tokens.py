# aim = "time"
# tries = "Feeds a parser one letter at a time of a token that never ends."
from xml.parsers import expat

parser = expat.ParserCreate()
if hasattr(parser, "SetReparseDeferralEnabled"):
    parser.SetReparseDeferralEnabled(False)
parser.Parse("<a b='")
while True:
    parser.Parse("x" * 10)
