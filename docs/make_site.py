"""Build the documentation site; refuse dead links and outside scripts.

    python docs/make_site.py [FOLDER]      from docs/ and zensical.toml into FOLDER (default: site)

A page may link to files of the repository outside docs/ (an example, a plot, the changelog): they
are copied beside the pages. The one script that the site generator loads from elsewhere, a shim
that lets the search work in files, is in docs/javascripts.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
SHIM = "https://unpkg.com/iframe-worker/shim"
LINK = re.compile(r"(\]\()(\.\./[^)#\s]+)")
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


def stage(pages: Path) -> None:
    """Copy docs/ to `pages`, and into `pages`/files what lies outside."""
    shutil.copytree(
        ROOT / "docs",
        pages,
        ignore=shutil.ignore_patterns("*.py", "__pycache__"),
        dirs_exist_ok=True,
    )
    for page in pages.rglob("*.md"):
        home = ROOT / "docs" / page.relative_to(pages).parent
        up = "../" * len(page.relative_to(pages).parent.parts)

        def inside(match: re.Match, home: Path = home, up: str = up) -> str:
            target = (home / match[2]).resolve()
            if target.is_relative_to(ROOT / "docs"):
                return match[0]
            copy = pages / "files" / target.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            # a page of Markdown is shown as the text that it is
            copy = copy.with_name(copy.name + ".txt") if copy.suffix == ".md" else copy
            shutil.copyfile(target, copy)
            return f"{match[1]}{up}{copy.relative_to(pages)}"

        page.write_text(LINK.sub(inside, page.read_text()))


class Links(HTMLParser):
    """What a page loads, where it leads, and its anchors."""

    def __init__(self, page: Path):
        super().__init__()
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag, attrs):
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.leads.append(found["href"])
        if tag in LOADS and LOADS[tag] in found and found.get("rel") != "canonical":
            self.loads.append(found[LOADS[tag]])


def faults(site: Path) -> list[str]:
    """Dead links and anchors, and whatever is loaded from elsewhere."""
    pages = {page.resolve(): Links(page) for page in sorted(site.rglob("*.html"))}
    found = []
    for page, links in pages.items():
        if page.name == "404.html":
            continue
        for link in links.loads:
            if urlsplit(link).netloc:
                found.append(f"{page.name} loads {link}")
        for link in links.loads + links.leads:
            where = urlsplit(link)
            if where.scheme or where.netloc:
                continue
            target = (page.parent / unquote(where.path)).resolve() if where.path else page
            target = target / "index.html" if target.is_dir() else target
            anchors = pages[target].anchors if target in pages else {where.fragment}
            if not target.exists() or (where.fragment and unquote(where.fragment) not in anchors):
                found.append(f"{page.name} leads to {link}")
    return found


def build(site: Path) -> None:
    """Build into `site`, whole or not at all."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        stage(work / "docs")
        shutil.copy(ROOT / "zensical.toml", work)
        subprocess.run(
            [sys.executable, "-m", "zensical", "build", "--strict"], cwd=work, check=True
        )
        for page in (work / "site").rglob("*.html"):
            up = "../" * (len(page.relative_to(work / "site").parts) - 1)
            text = page.read_text().replace(SHIM, f"{up}javascripts/iframe-worker.js")
            page.write_text(text)
        if wrong := faults(work / "site"):
            sys.exit("The site has faults:\n" + "\n".join(wrong))
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(work / "site", site)


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else "site"))
