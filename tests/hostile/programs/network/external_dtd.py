# aim = "contact"
# tries = "Has a parser fetch the document's type."
import io
import xml.sax
from xml.sax.handler import feature_external_ges

parser = xml.sax.make_parser()
parser.setFeature(feature_external_ges, True)
parser.parse(io.StringIO('<!DOCTYPE d SYSTEM "http://127.0.0.1:@PORT@/d.dtd"><d/>'))
