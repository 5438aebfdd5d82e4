"""The documentation site: every page is in it, nothing is dead or from elsewhere, notebooks run."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def script(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def leaves(nav):
    for entry in nav:
        for target in entry.values():
            yield from [target] if isinstance(target, str) else leaves(target)


def test_every_page_stands_once_in_the_navigation_and_on_the_first_page():
    nav = list(leaves(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    pages = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    assert sorted(nav) == sorted(pages)
    first = re.findall(r"\]\(([^)#]+)", (DOCS / "index.md").read_text())
    assert set(pages) - {"index.md"} <= set(first)


@pytest.mark.slow
def test_the_site_is_built_without_faults_and_faults_are_found(tmp_path):
    pytest.importorskip("zensical", reason="the site generator is not installed")
    make = script("make_site")
    make.build(tmp_path / "site")
    page = tmp_path / "site" / "explanation" / "promise.html"
    assert (tmp_path / "site" / "files" / "CHANGELOG.md.txt").exists()
    planted = {
        '<a href="nowhere.html">x</a>': "promise.html leads to nowhere.html",
        '<a href="sharp-edges.html#none">x</a>': "promise.html leads to sharp-edges.html#none",
        '<script src="https://elsewhere.org/x.js"></script>': "promise.html loads https://else",
    }
    whole = page.read_text()
    for text, fault in planted.items():
        page.write_text(whole.replace("</body>", f"{text}</body>"))
        [found] = make.faults(tmp_path / "site")
        assert found.startswith(fault)


def test_notebooks_are_those_of_their_pages():
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    make = script("make_notebooks")
    assert {page.stem for page in make.FOLDER.glob("*.ipynb")} == {
        Path(page).stem for page in make.PAGES
    }
    for page in make.PAGES:
        kept = nbformat.read(make.FOLDER / f"{Path(page).stem}.ipynb", 4)
        assert [cell.source for cell in kept.cells] == [
            cell.source for cell in make.notebook(page).cells
        ], "run: python docs/make_notebooks.py"


@pytest.mark.slow
def test_a_notebook_runs():
    pytest.importorskip("nbclient", reason="nbclient is not installed")
    make = script("make_notebooks")
    made = make.run(make.notebook("tutorial/first-stream.md"))
    shown = [one for cell in made.cells for one in cell.get("outputs", [])]
    assert any("text/html" in one.get("data", {}) for one in shown), "the plot is shown"
