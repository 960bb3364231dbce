"""Facts of a verified file in the words of a dossier, each with the place that it comes from.

Nothing here is computed from rows: study, receipts and the guarantee that was computed again.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from dppca.common.kernel.attestation.documents import Verification
from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.privacy.laws import every_law
from dppca.common.kernel.schema.attributes import Attribute, describe_values
from dppca.common.kernel.schema.units import Person
from dppca.common.kernel.study import Study, Trust
from dppca.common.verification.dossier.questions import Answers
from dppca.common.verification.files import deviations_text

PRODUCTS = {
    "components": "Summary statistics",
    "counts": "Summary statistics",
    "synthetic": "Synthetic data",
    "model": "Machine learning model",
}
"""The registry's words for each kind of file."""
_KINDS = {
    "components": "Principal components, with sums and products of columns",
    "counts": "Counts of rows in tables",
    "synthetic": "Rows drawn from noised sums, products and counts",
    "model": "A linear classifier",
}
_MOST_SHOWN = 40  # values of an attribute
_LARGEST = 20  # epsilon whose odds are told as a number


@dataclass(frozen=True)
class Facts:
    """A verified file, its study and the answers; ``sha256`` is the file's, hexadecimal."""

    report: Verification
    study: Study
    sha256: str
    answers: Answers

    @property
    def epsilon(self) -> Decimal:
        """Epsilon for one person of all that the file says: a model's comes on top."""
        model = self.report.model
        whole = Decimal(self.report.guarantee.epsilon)
        return whole if model is None else whole + Decimal(model.epsilon)

    @property
    def delta(self) -> Decimal:
        """Delta for one person of all that the file says."""
        model = self.report.model
        whole = Decimal(self.report.guarantee.delta)
        return whole if model is None else whole + Decimal(model.delta)

    @property
    def title(self) -> str:
        """The study's title, or its name."""
        return self.study.title or self.study.name

    @property
    def product(self) -> str:
        """What the file is, in a sentence."""
        names = ", ".join(each.name for each in self.study.table.attributes)
        owners = len(self.report.owners)
        whose = f"{owners} owners" if owners > 1 else "one owner"
        return f"{_KINDS[self.report.kind]}, of the rows of {whose}. Columns: {names}."

    @property
    def odds(self) -> str:
        """Epsilon as odds; rounded up."""
        epsilon = float(self.epsilon)
        if epsilon > _LARGEST:
            return f"a factor of e^{decimal_text(self.epsilon)}, which protects nobody"
        factor = math.exp(epsilon)
        step = 10.0 ** (math.floor(math.log10(factor)) - 2)
        delta = decimal_text(self.delta)
        aside = f", but for a probability of {delta}" if self.delta else ""
        return (
            f"whatever somebody believes of one person, the file changes the odds of it by a "
            f"factor of {math.ceil(factor / step) * step:.3g} at most{aside}"
        )

    @property
    def parameters(self) -> str:
        """What epsilon and delta are of, and on which conditions."""
        model, guarantee = self.report.model, self.report.guarantee
        parts = []
        if model is not None:
            parts.append(
                f"Components: epsilon {guarantee.epsilon}, delta {guarantee.delta}; the model on "
                f"top: epsilon {model.epsilon}, delta {model.delta}."
            )
        if self.report.continues is not None:
            parts.append(f"Together with study {self.report.continues}, which it continues.")
        if self.report.if_more_collude is not None:
            parts.append(f"If more owners collude: {self.report.if_more_collude.words}.")
        return " ".join([*parts, "Provided that: " + " ".join(guarantee.assumptions)])

    @property
    def unit(self) -> str:
        """Whose contribution is protected."""
        unit = self.study.unit
        if isinstance(unit, Person):
            return f"A person, with {unit.text}"
        rows = "one row" if unit.most == 1 else f"at most {unit.most} rows"
        return f"A person, with {rows} at one owner"

    @property
    def adjacent(self) -> str:
        """Which tables are neighbours, and where one person may have rows."""
        overlap = self.study.overlap
        if overlap is True:
            where = "One person may have rows at every owner."
        elif overlap is False:
            where = "One person has rows at one owner only."
        else:
            groups = "; ".join(" and ".join(group) for group in overlap)
            where = f"One person may have rows at several owners of a group: {groups}."
        return f"Relation: {self.report.guarantee.relation}. {where}"

    @cached_property
    def columns(self) -> tuple[tuple[str, str, str], ...]:
        """Name, public values and reason of each attribute; an empty reason was not said."""
        return tuple(
            (each.name, _values(each), each.why or "") for each in self.study.table.attributes
        )

    @property
    def unprotected(self) -> str:
        """What leaves without noise."""
        parts = [
            f"Who took part: {', '.join(each.owner for each in self.report.owners)}.",
            "The study's document: columns with their public bounds and labels.",
        ]
        if not self.study.has_secret_rows:
            counts = self.study.unit.counts
            each = ", ".join(f"{one.owner} {one.n_rows}" for one in self.report.owners)
            parts.insert(1, f"The number of {counts} of each owner: {each}.")
        if self.report.model is not None:
            parts.append(f"The number of rows of the model: {self.report.model.n_rows}.")
        return " ".join(parts)

    @property
    def noise(self) -> str:
        """The mechanism with its integers."""
        found = self.report.mechanism
        law = every_law()[found.name](**found.parameters)
        said = ", ".join(f"{name} {value}" for name, value in found.parameters.items())
        return (
            f"{found.name} noise ({found.source}), drawn exactly on integers from the operating "
            f"system's entropy; {found.resolution_bits} bits a value; sensitivity L1 {found.l1}, "
            f"L2 squared {found.l2_squared}; {said}; standard deviation of a sum "
            f"{deviations_text(law, 4**found.resolution_bits)}. All of this was computed again "
            "from the study when the file was verified."
        )

    @property
    def is_pure(self) -> bool:
        """Whether delta is zero."""
        return not self.delta

    @property
    def trust(self) -> str:
        """Whom an owner has to trust."""
        if self.study.trust is Trust.OWNER:
            return (
                "Each owner adds all of its noise before anything leaves: it has to trust nobody "
                "with its rows. The curator sees each owner's noised sums."
            )
        colluders = self.study.privacy.colluders or 0
        return (
            "The owners add the noise together, and the curator sees one sum. It holds "
            f"against the curator together with {many(colluders, 'owners')} at most, and against "
            "parties whose computing is bounded: sums are masked by keys."
        )

    @property
    def actors(self) -> str:
        """Who takes part, by name."""
        report = self.report
        opened = f"; openers: {', '.join(report.opened_by)}" if report.opened_by else ""
        return (
            f"Owners: {', '.join(self.study.owners)}; curator: {report.countersigned_by}{opened}; "
            f"all certified by {report.authority}. Whoever has the file is an adversary."
        )

    @property
    def composition(self) -> str:
        """How owners, sums and studies add up."""
        several = self.study.overlap is not False
        how = "add up where one person may have rows" if several else "are of different people"
        return (
            "All numbers of one release have one joint sensitivity. Releases of different owners "
            f"{how}. Each owner's ledger keeps what was charged to its people, over all studies."
        )

    @property
    def origin(self) -> str:
        """Digests of what the dossier was made from."""
        return (
            f"File {self.report.file.rpartition('/')[2]}, SHA-256 {self.sha256}; study "
            f"{self.study.name}, digest {self.study.digest}; {self.report.software}. To check: "
            "`dppca-owner verify FILE --ca CA`."
        )


def _values(attribute: Attribute) -> str:
    values = describe_values(attribute)
    more = f" and {len(values) - _MOST_SHOWN} more" if len(values) > _MOST_SHOWN else ""
    return ", ".join(values[:_MOST_SHOWN]) + more
