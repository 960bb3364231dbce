"""The report of a simulation as one HTML file: no script, no link, no network."""

from __future__ import annotations

import base64
from pathlib import Path

from dppca.common.clock import utc_now
from dppca.common.pages.rendering import render_file
from dppca.deploy.simulation.documents import SimulationDocument

_TEMPLATES = Path(__file__).parent / "templates"
_PICTURES = {
    "marginals": "Shares of each attribute among real training rows and synthetic rows",
    "pairs": "Total variation of every pair of attributes",
    "biplot": "Synthetic rows on the first two components",
}
"""What is drawn as a picture; eigenvalues and loadings are drawn by the page itself."""


def make_page(document: SimulationDocument) -> str:
    """The page, from the report's JSON document and the pictures that it names."""
    privacy = document["privacy"]
    face = [
        ("Study", document["study"]),
        ("One person, all owners together", _guarantee(document)),
        ("Owners", ", ".join(owner["name"] for owner in document["owners"])),
        ("Noise", f"{privacy['mechanism']}, {privacy['entries']:,} numbers of each owner"),
        ("Target", document["target"] or "none"),
        ("Seed and split", f"{document['seed']}, {document['split']}"),
        ("Digest", document["digest"]),
    ]
    pictures = [
        (text, base64.b64encode(Path(document["plots"][name]).read_bytes()).decode())
        for name, text in _PICTURES.items()
        if name in document["plots"]
    ]
    return render_file(
        [_TEMPLATES],
        "simulation.html",
        who="simulation",
        now=utc_now(),
        report=document,
        face=face,
        pictures=pictures,
    )


def _guarantee(document: SimulationDocument) -> str:
    federation = document["privacy"]["federation"]
    return f"epsilon {federation['epsilon']}, delta {federation['delta']}"
