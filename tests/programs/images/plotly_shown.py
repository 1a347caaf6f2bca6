"""Figures of plotly are kept as data and as a page."""

import plotly.express as px
import plotly.graph_objects as go

px.bar(x=["a", "b"], y=[1, 3], title="Bars").show()
figure = go.Figure(go.Scatter(x=[1, 2], y=[3, 4]))
figure.show()
figure.write_html("own.html")
result = figure.to_dict()["data"][0]["type"]
