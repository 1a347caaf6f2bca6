# aim = "memory"
# tries = "Builds a document whose every node is a table."
import xml.dom.minidom

held = [xml.dom.minidom.parseString("<a>" + "<b c='d'/>" * 60_000 + "</a>") for _ in range(40)]
