"""Make and run a notebook of each tutorial, from its page.

    python docs/make_notebooks.py      into docs/notebooks, with what the cells print

Text between snippets becomes a cell of text, each Python snippet a cell of code.
"""

import re
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

DOCS = Path(__file__).parent
FOLDER = DOCS / "notebooks"
PAGES = ["tutorial/first-stream.md", "tutorial/first-count.md", "how-to/publish-places.md"]
SNIPPET = re.compile(r"^```python\n(.*?)^```\n?", re.M | re.S)
LINK = re.compile(r"\]\((?!https:)([^)]+)\)")


def notebook(page: str) -> nbformat.NotebookNode:
    """The notebook of a page, not yet run."""
    home = (DOCS / page).parent.relative_to(DOCS)
    text = LINK.sub(lambda link: f"](../{home}/{link[1]})", (DOCS / page).read_text())
    cells, make = [], (nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell)
    for number, part in enumerate(SNIPPET.split(text)):
        if part.strip():
            cells.append(make[number % 2](part.strip(), id=f"{Path(page).stem}-{number}"))
    return nbformat.v4.new_notebook(
        cells=cells,
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )


def run(made: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Run every cell in an empty folder; a cell that fails raises."""
    with tempfile.TemporaryDirectory() as folder:
        return NotebookClient(
            made, timeout=3600, kernel_name="python3", resources={"metadata": {"path": folder}}
        ).execute()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for page in PAGES:
        nbformat.write(run(notebook(page)), FOLDER / f"{Path(page).stem}.ipynb")
        print(f"{page} -> notebooks/{Path(page).stem}.ipynb")
