# aim = "secret"
# tries = "Includes the file in a document by XInclude."
import xml.etree.ElementInclude as include
import xml.etree.ElementTree as tree

text = '<d xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="@SECRET_FILE@" parse="text"/></d>'
document = tree.fromstring(text)
include.include(document)
print(tree.tostring(document))
