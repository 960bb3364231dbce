"""Words of art, each with its meaning: of the documentation's glossary and of every page."""

from dataclasses import dataclass

from dppca.common.kernel.documents.names import file_part


@dataclass(frozen=True, slots=True)
class Word:
    """A word of art. ``meaning`` may have code between backquotes."""

    term: str
    meaning: str

    @property
    def place(self) -> str:
        """Its place on the page of words: the first of its names."""
        return file_part(self.term.split(",")[0].split(" (")[0].replace(" ", "-"))


WORDS = (
    Word(
        "steward, site",
        "You, who decide what is released, and your installation: one folder with a key, a policy "
        "and a ledger.",
    ),
    Word("owner", "Your organisation, under one name, in every study."),
    Word(
        "curator, operator",
        "The server that adds up what owners send, and the person who runs it. Neither sees a row.",
    ),
    Word("study", "What all owners agree on before anybody looks at rows."),
    Word("digest", "64 digits that name one document: another document has other digits."),
    Word(
        "schema",
        "The attributes, with bounds and labels that come from knowledge, never from rows.",
    ),
    Word(
        "policy", "`policy.yaml`: whose rows you hold, their lifetime budget, where the rows are."
    ),
    Word("population", "The people whose rows you hold. The budget is theirs."),
    Word("epsilon (ε)", "How much a result may depend on one person. Small is private."),
    Word("delta (δ)", "The chance that this bound fails. 0 with Laplace noise."),
    Word(
        "replace-one",
        "What the bound compares: your rows, and the same number of rows of which those of one "
        "person are any others.",
    ),
    Word(
        "lifetime budget",
        "The ε (and δ) that all releases about a population may cost, for good.",
    ),
    Word("charge", "What one release takes from the budget. It never comes back."),
    Word(
        "noise, noised",
        "Random numbers, added at your site to each number that leaves, that hide every person.",
    ),
    Word(
        "coded",
        "Written as a number by the study's public rules: a value that is missing, unknown or out "
        "of bounds, too.",
    ),
    Word(
        "contribution",
        "The noised sums that leave your site, once for each study, with their receipt.",
    ),
    Word(
        "ledger, chain",
        "Your record of every charge. Each entry holds a digest of all before it, so nobody can "
        "change one unseen.",
    ),
    Word(
        "components",
        "What a study finds: which attributes vary together. Those below the noise edge may be "
        "noise.",
    ),
    Word("synthetic rows", "Rows drawn from the components. They belong to nobody."),
    Word("released", "Label of a file that may go anywhere."),
    Word("site-only", "Label of a file that must not leave your site."),
    Word("receipt", "The signed statement beside a released file; anybody can check it."),
    Word(
        "opener",
        "With `trust: aggregate`: an owner that comes back once after the deadline and removes the "
        "masks, so that the sum can be read.",
    ),
)
"""What a steward reads; the documentation has more."""
