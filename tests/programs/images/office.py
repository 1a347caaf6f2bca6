"""What people do with the packages of `office`. Prints the same on the host's Python."""

import datetime
import hashlib
import io
import zipfile

import docx
import docxtpl
import openpyxl
import pdfplumber
import pptx
import pypdf
import xlsxwriter
from docx.shared import Pt
from fpdf import FPDF
from pdfminer.high_level import extract_text
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Paragraph, SimpleDocTemplate, Table

WHEN = datetime.datetime(2024, 2, 29, 12, 0, 0)


def parts(path):
    """The parts of a zip archive by name, with their hashes."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = [name for name in archive.namelist() if not name.startswith("docProps/")]
        return {name: hashlib.sha256(archive.read(name)).hexdigest()[:12] for name in sorted(names)}


# Word: text, styles, tables, and a template.
document = docx.Document()
document.add_heading("Quarter & year", level=1)
paragraph = document.add_paragraph("Sales ", style="List Bullet")
paragraph.add_run("grew").bold = True
paragraph.runs[-1].font.size = Pt(14)
table = document.add_table(rows=1, cols=2, style="Table Grid")
for row in (("North", "3.5"), ("Süd", "4 €")):
    for cell, text in zip(table.add_row().cells, row, strict=True):
        cell.text = text
document.save("report.docx")
again = docx.Document("report.docx")
print([(p.style.name, p.text) for p in again.paragraphs])
print([[cell.text for cell in row.cells] for row in again.tables[0].rows])
print(parts("report.docx"))

document = docx.Document()
document.add_paragraph("Dear {{ name }}, {% for n in numbers %}{{ n }};{% endfor %}")
document.save("template.docx")
template = docxtpl.DocxTemplate("template.docx")
template.render({"name": "Ada & Co", "numbers": [1, 2]}, autoescape=True)
template.save("letter.docx")
print(docx.Document("letter.docx").paragraphs[0].text)

# PowerPoint: a slide with a chart, whose workbook is XlsxWriter's.
deck = pptx.Presentation()
slide = deck.slides.add_slide(deck.slide_layouts[5])
slide.shapes.title.text = "Regions"
data = CategoryChartData()
data.categories = ["North", "South"]
data.add_series("Sales", (3.5, 4.0))
box = [Inches(1), Inches(2), Inches(6), Inches(4)]
slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *box, data)
deck.save("deck.pptx")
for shape in pptx.Presentation("deck.pptx").slides[0].shapes:
    print(shape.shape_type, shape.has_chart and list(shape.chart.plots[0].categories))
print(len(parts("deck.pptx")))

# Excel: formulas, formats, and reading.
book = openpyxl.Workbook()
book.properties.created = book.properties.modified = WHEN
sheet = book.active
for row in (("day", "sum"), (WHEN.date(), 1.5), (WHEN.date(), 2)):
    sheet.append(row)
sheet["B4"] = "=SUM(B2:B3)"
book.save("book.xlsx")
print([[cell.value for cell in row] for row in openpyxl.load_workbook("book.xlsx").active.rows])
print(parts("book.xlsx"))
book = xlsxwriter.Workbook("written.xlsx")
book.set_properties({"created": WHEN})
sheet = book.add_worksheet("Süd")
sheet.write_row(0, 0, ["a", 1, 2.5], book.add_format({"bold": True, "num_format": "0.00"}))
chart = book.add_chart({"type": "line"})
chart.add_series({"values": "=Süd!$B$1:$C$1"})
sheet.insert_chart("A3", chart)
book.close()
print(openpyxl.load_workbook("written.xlsx")["Süd"]["C1"].value)
print(parts("written.xlsx"))

# PDF: two writers, three readers.
pdf = FPDF()
pdf.set_creation_date(WHEN.replace(tzinfo=datetime.UTC))
pdf.add_page()
pdf.set_font("Helvetica", size=12)
pdf.cell(0, 10, "Total: 12.50", new_x="LMARGIN", new_y="NEXT")
with pdf.table() as table:
    for cells in (("Region", "Sales"), ("North", "3.5")):
        line = table.row()
        for text in cells:
            line.cell(text)
pdf.output("total.pdf")
with open("total.pdf", "rb") as file:
    print(len(file.read()))
with pdfplumber.open("total.pdf") as opened:
    page = opened.pages[0]
    print(page.extract_text().split("\n"), page.extract_tables())
print(extract_text("total.pdf").split())
story = [Paragraph("Ein <b>Satz</b>", getSampleStyleSheet()["Normal"]), Table([["a", "b"]])]
SimpleDocTemplate("story.pdf", invariant=1).build(story)
with open("story.pdf", "rb") as file:
    print(hashlib.sha256(file.read()).hexdigest()[:12])
writer = pypdf.PdfWriter()
for name in ("total.pdf", "story.pdf"):
    writer.append(name)
merged = io.BytesIO()
writer.write(merged)
print([page.extract_text().split() for page in pypdf.PdfReader(merged).pages])
with open("merged.pdf", "wb") as file:
    file.write(merged.getvalue())
