from bs4 import BeautifulSoup

page = "<html><body><table>" + "".join(
    f"<tr class='r{i % 3}'><td>{i}</td><td><a href='/item/{i}'>Item {i}</a></td></tr>" for i in range(200)
) + "</table></body></html>"
soup = BeautifulSoup(page, "html.parser")
links = [a["href"] for a in soup.find_all("a")]
rows = [[td.get_text() for td in tr.find_all("td")] for tr in soup.select("tr.r1")]
print(len(links), links[-1], len(rows), rows[2], soup.table.find("tr")["class"])
