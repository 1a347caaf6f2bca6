from openpyxl import Workbook, load_workbook

book = Workbook()
sheet = book.active
sheet.append(["item", "count", "price"])
for i in range(150):
    sheet.append([f"item {i}", i, i * 1.5])
sheet["D1"] = "=SUM(C2:C151)"
book.save("book.xlsx")
back = load_workbook("book.xlsx").active
print(back.max_row, sum(row[1] for row in back.iter_rows(min_row=2, values_only=True)), back["D1"].value)
