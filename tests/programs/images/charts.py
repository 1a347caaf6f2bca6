"""What people do with the packages of `charts`. Prints the same on the host's Python."""

import hashlib
import json

import altair
import pandas
import plotly.express as px
import plotly.graph_objects as go

table = pandas.DataFrame({"x": [1, 2, 3], "y": [1.5, 4, 9], "z": list("aba")})
figure = px.scatter(table, x="x", y="y", color="z", title="points")
print([trace.name for trace in figure.data], figure.layout.title.text)
figure = go.Figure(go.Bar(x=["a", "b"], y=[1, 2]))
print(json.loads(figure.to_json())["data"][0]["type"])
page = figure.to_html(full_html=False, include_plotlyjs="cdn", div_id="d")
print(len(page))
chart = altair.Chart(table).mark_line().encode(x="x", y="y:Q", color="z:N").properties(title="t")
specification = chart.to_dict()
print(json.dumps(specification, sort_keys=True))
try:
    altair.Chart(table).mark_line(nonsense=True).to_dict()
except altair.utils.schemapi.SchemaValidationError as error:
    print(hashlib.sha256(str(error).encode()).hexdigest()[:12])
