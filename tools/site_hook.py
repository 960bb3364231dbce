"""Hook of MkDocs (``mkdocs.yml``) that completes the site besides the pages of ``docs``.

- Pages of the repository's root, such as ARCHITECTURE, and all decisions belong to the site.
- Pages that are made from code belong to it (`tools.pages`).
- Notebooks are run, and become pages with their outputs (`tools.notebooks`).
- Links are written for a reader of the repository. Links to files that are no pages become code.
- Mermaid is drawn when the site is built, because a browser would need a script from elsewhere.
- Search finds pages for readers first: guides, then references, then what is kept for the record.
- A site in which a page loads a file from another host is refused.
"""

import base64
import os
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mmdr
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from tools.markdown import ROOT, find_loaded
from tools.notebooks import list_notebooks, notebook_page, run_notebook
from tools.pages import SITE_PAGES

ROOT_PAGES = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
BOOSTS = {
    "how-to/": 4.0,
    "how-to/use-from-r.md": 12.0,  # a name of one letter
    "tutorial/": 2.0,
    "explanation/data-protection.md": 4.0,
    "reference/cli.md": 0.3,
    "reference/errors.md": 4.0,
    "reference/api.md": 0.5,
    "reference/json-output.md": 0.05,
    "reference/performance.md": 0.05,
    "reference/night.md": 0.05,
    "explanation/development.md": 0.05,
    "explanation/performance-engineering.md": 0.05,
    "decisions/": 0.05,
    **dict.fromkeys(ROOT_PAGES, 0.05),
}
"""Weight in the search of pages whose path begins so; 1 for the others."""
_MERMAID = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\[[^\]]*\])\(([^)\s#]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Add the root's pages and the decisions to the navigation, and the version to the footer."""
    config.copyright = f"DPPCA {version('dppca')}"
    pages = sorted(path.name for path in (ROOT / "docs/decisions").glob("[0-9]*.md"))
    config.nav += [
        {"Project": [name for name in ROOT_PAGES if (ROOT / name).exists()]},
        {"Decisions": ["decisions/README.md", *(f"decisions/{name}" for name in pages)]},
    ]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the root, those that are made from code, and the notebooks."""
    for name, make in SITE_PAGES.items():
        files.append(File.generated(config, name, content=make()))
    for path in list_notebooks():
        page = notebook_page(run_notebook(path))
        name = path.relative_to(ROOT / "docs").with_suffix(".md").as_posix()
        files.append(File.generated(config, name, content=page))
    for name in ROOT_PAGES:
        if (ROOT / name).exists():
            files.append(File.generated(config, name, content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, files: Any, **_: Any) -> str:
    """Draw diagrams and translate links."""
    source = page.file.src_uri
    for begin, boost in BOOSTS.items():
        if source.startswith(begin):
            page.meta["search"] = {"boost": boost}
    folder = ROOT if source in ROOT_PAGES else (ROOT / "docs" / source).parent

    def translated(match: re.Match[str]) -> str:
        text, path, anchor = match[1], match[2], match[3] or ""
        if "://" in path:
            return match[0]
        target = os.path.relpath(os.path.normpath(folder / path), ROOT)
        uri = target.removeprefix("docs/").replace(".ipynb", ".md")
        if (target.startswith("docs/") or target in ROOT_PAGES) and uri in files.src_uris:
            return f"{text}({os.path.relpath(uri, Path(source).parent)}{anchor})"
        return f"{text[1:-1]} (`{target}`)"

    return _MERMAID.sub(_draw, _outside_code(translated, markdown))


def on_post_build(config: Any) -> None:
    """Refuse a page that loads a file from another host."""
    for path in sorted(Path(config.site_dir).rglob("*.html")):
        loaded = list(find_loaded(path.read_text()))
        if loaded:
            raise PluginError(f"{path} loads {', '.join(loaded)}")


def _outside_code(translated: Any, markdown: str) -> str:
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        part if part.startswith("```") else _LINK.sub(translated, part) for part in parts
    )


def _draw(match: re.Match[str]) -> str:
    svg = mmdr.render(match[1]).svg()
    encoded = base64.b64encode(svg.encode()).decode()
    return (
        '<img alt="Diagram, described by the text" style="background: white" '
        f'src="data:image/svg+xml;base64,{encoded}">'
    )
