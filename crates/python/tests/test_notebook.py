"""The example notebook runs from its first cell to its last."""

from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_notebook():
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3")
    done = client.execute()
    shown = [output for cell in done.cells if cell.cell_type == "code" for output in cell.outputs]
    text = "\n".join(output.get("text", "") for output in shown)
    assert "The sum is 10466." in text
    assert "{0: 0, 1: 1, 2: 4} SecurityError: Forbidden import: os" in text
    assert any("text/html" in output.get("data", {}) for output in shown)
