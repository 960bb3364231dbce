"""What `synthesize` prints of the rows that it made."""

from pathlib import Path

import pytest

from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.privacy.labels import Label
from dppca.owner.render.synthesis import SynthesisDocument, synthesis_text


@pytest.mark.parametrize(
    ("rows", "advised", "is_said"),
    [
        (300, 1_200, True),
        (1_199, 1_200, True),
        (1_200, 1_200, False),
        (300, 1_000_000, True),
        (300, 1_000_004, False),
    ],
)
def test_more_rows_are_advised_while_there_are_fewer_and_a_file_of_them_is_small(
    rows: int, advised: int, is_said: bool
) -> None:
    document = SynthesisDocument(
        study="s",
        digest="00" * 32,
        label=Label.RELEASED,
        rows=rows,
        advised_rows=advised,
        kept=[],
        trace_scale=1.0,
        decoded_by=None,
        misfit=None,
        tables=None,
        missed=[],
        relations=None,
        forms={Form.DECODED: Path("rows.parquet")},
        replicates=[],
        published=[],
        bytes=0,
        seconds=0.0,
    )
    words = f"--rows {advised}) would have less chance error. They tell no more about people"
    assert (words in synthesis_text(document)) == is_said
