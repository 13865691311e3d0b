"""`make docs`: every page is in the site, every link leads somewhere, and reading it needs no network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from prototrt.tests.fresh_python import ROOT, run_python

DOCS = ROOT / "docs"
FETCHED = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=["'](?:https?:)?//""")


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    run_python(DOCS / "make_site.py", tmp_path / "pages")
    return tmp_path / "pages"


def sphinx(pages: Path, builder: str = "html") -> subprocess.CompletedProcess[str]:
    """Sphinx, for which every warning is an error: a page that no contents list names, a dead link."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", builder]
    places = ["-c", str(DOCS), str(pages), str(pages.parent / "site")]
    return subprocess.run([*command, *places], check=False, capture_output=True, text=True)


@pytest.fixture
def maker() -> None:
    for package in ("sphinx", "furo", "myst_parser", "sphinx_copybutton"):
        pytest.importorskip(package, reason="makes the site")


@pytest.mark.exhaustive
@pytest.mark.usefixtures("maker")
def test_the_site_is_whole_and_needs_no_network(pages: Path) -> None:
    done = sphinx(pages)
    assert (done.stderr, done.returncode) == ("", 0)
    made = list((pages.parent / "site").rglob("*.html"))
    assert {"index.html", "api.html", "recurrent.html"} <= {path.name for path in made}
    assert [path.name for path in made if FETCHED.search(path.read_text())] == []
    assert "takes_options" not in (pages.parent / "site" / "docs" / "api.html").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("maker")
def test_links_lead_somewhere(pages: Path) -> None:
    done = sphinx(pages, "dummy")  # which reads everything, and writes nothing
    assert (done.stderr, done.returncode) == ("", 0)
    with (pages / "docs" / "recurrent.md").open("a") as page:
        page.write("\n[nothing](nowhere.md)\n")
    (pages / "docs" / "forgotten.md").write_text("# Forgotten\n")
    done = sphinx(pages, "dummy")  # which reads what has changed
    assert done.returncode == 1
    assert "'nowhere.md'" in done.stderr
    assert "forgotten.md: WARNING: document isn't included in any toctree" in done.stderr


def test_every_page_is_in_the_contents(pages: Path) -> None:
    """Sphinx says it, too, but takes longer."""
    listed = set(re.findall(r"^[\w/-]+$", (pages / "index.md").read_text(), re.MULTILINE))
    found = {str(path.relative_to(pages).with_suffix("")) for path in pages.rglob("*.md")}
    assert sorted(found - listed) == ["index"]


def test_every_public_name_is_on_its_page(pages: Path) -> None:
    import prototrt

    text = (pages / "docs" / "api.md").read_text()
    assert [name for name in prototrt.__all__ if f":: prototrt.{name}\n" not in text] == []
