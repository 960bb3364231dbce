"""Writer of the pages and the compose file that are made from code; ``--check`` compares them.

The site's own pages are made when it is built.
"""

import sys
from collections.abc import Callable

from dppca.deploy.simulation.containers.topology import demo_compose_text
from tools import json_reference, limits
from tools.decisions import index
from tools.file_reference import policy_schema, site_page, site_schema, study_page, study_schema
from tools.glossary import PATH, glossary_page
from tools.markdown import ROOT
from tools.night import night_page
from tools.reference import page

PAGES: dict[str, Callable[[], str]] = {
    "docs/decisions/README.md": index,
    PATH: glossary_page,
    "docs/reference/study-file.md": study_page,
    "docs/reference/site-files.md": site_page,
    "docs/reference/study-file.schema.json": study_schema,
    "docs/reference/site-file.schema.json": site_schema,
    "docs/reference/policy-file.schema.json": policy_schema,
    "docs/reference/night.md": night_page,
    "docker-compose.yml": demo_compose_text,
}
SITE_PAGES: dict[str, Callable[[], str]] = {
    "reference/cli.md": page,
    "reference/json-output.md": json_reference.page,
    "reference/limits.md": limits.page,
    "reference/json-output.schema.json": json_reference.schema_page,
}


def main() -> int:
    """Write stale pages, or report them; return the exit code."""
    stale = [path for path, make in PAGES.items() if _read(path) != make()]
    if sys.argv[1:] == ["--check"]:
        if stale:
            sys.stderr.write(f"out of date: {', '.join(stale)}: run python -m tools.pages\n")
        return 1 if stale else 0
    for path in stale:
        (ROOT / path).write_text(PAGES[path]())
    return 0


def _read(path: str) -> str:
    return (ROOT / path).read_text() if (ROOT / path).exists() else ""


if __name__ == "__main__":
    raise SystemExit(main())
