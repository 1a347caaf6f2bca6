# aim = "memory"
# tries = "Has a parser of XML keep a document of a million elements."
import xml.etree.ElementTree as tree

held = [tree.fromstring("<a>" + "<b c='d'/>" * 1_000_000 + "</a>") for _ in range(12)]
