# aim = "secret"
# tries = "Includes the file in a document as an external entity."
import io
import xml.sax
from xml.sax.handler import ContentHandler, feature_external_ges

DOCUMENT = '<!DOCTYPE d [<!ENTITY e SYSTEM "@SECRET_FILE@">]><d>&e;</d>'


class Printer(ContentHandler):
    def characters(self, content):
        print(content)


parser = xml.sax.make_parser()
parser.setFeature(feature_external_ges, True)
parser.setContentHandler(Printer())
parser.parse(io.StringIO(DOCUMENT))
