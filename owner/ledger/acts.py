"""Acts that a site with roles lets through only once its people have signed them. Pure.

An act is what one call of the ledger would enter: its *terms*, which may leave, and its *facts*,
which never do. Proposing and doing make the act by the same functions from the same arguments, so
what people sign is what is done. An entry's own part of an act is checked once more whenever the
chain is read (`dppca.owner.ledger.approvals`).

What is compared beside the entry, in the transaction alone: the budgets before the charge of every
population that it counts for, where the rows lead, what they add up to, and the digests of
policy.yaml, site.yaml and ca.pem. Rows to which others may write are bound by their place, query
and number, which may differ by a tenth.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from dppca.common.kernel.consent.statement_kinds import StatementKind
from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.documents.values import canonical_json
from dppca.owner.ledger.entries import (
    Ballot,
    Disowning,
    Recovery,
    ReleaseKind,
    ReleaseRequest,
    Reservation,
    RowsPublication,
    SetOpening,
)
from dppca.owner.ledger.entry_documents import to_document

if TYPE_CHECKING:
    from dppca.common.kernel.consent.roles import Roles
    from dppca.common.kernel.consent.statement_terms import StatementTerms

_RANGE = 10  # live rows may be more or fewer by one in so many
_NEVER_COMPARED = frozenset({"salt", "n_rows"})
_OPTIONAL = frozenset(
    {
        "study",
        "study_digest",
        "content_digest",
        "mechanism",
        "epsilon",
        "delta",
        "charged_epsilon",
        "charged_rho",
        "colluders",
        "honest",
    }
)
"""StatementTerms that are null where they have no meaning; the others are every statement's."""
ApprovedEntry = Reservation | Ballot | SetOpening | Recovery | Disowning | RowsPublication


@dataclass(frozen=True, slots=True)
class Act:
    """What one call would enter in the ledger; ``terms`` are those that have a meaning for it.

    ``largest_rows`` are those of the largest table of synthetic rows, and ``usual_rows`` those that
    are drawn of its result where nobody says a number; None where only the entry is known.
    """

    kind: StatementKind
    terms: Mapping[str, Any]
    facts: Mapping[str, Any]
    largest_rows: int | None = None
    usual_rows: int = 0

    def with_facts(self, facts: Mapping[str, Any]) -> Act:
        """Return it with more facts."""
        return replace(self, facts={**self.facts, **facts})

    def is_of(self, terms: StatementTerms, facts: Mapping[str, Any]) -> bool:
        """Return True if a statement with these terms and facts allows it."""
        return self.is_within(terms, facts) and facts.keys() - self.facts.keys() <= {"salt"}

    def is_beforehand(self, terms: StatementTerms, facts: Mapping[str, Any]) -> bool:
        """Return True if a contribution's statement allows it, too (`StatementTerms.also`).

        Facts that both have are the same: the place to which it goes, and the policy.
        """
        also = terms.also
        if also is None or self.terms.get("study_digest") != terms.study_digest:
            return False
        if any(facts[key] != value for key, value in self.facts.items() if key in facts):
            return False
        if self.kind is StatementKind.ROWS and also.rows is not None:
            most = self.usual_rows if also.rows.number == "result" else also.rows.number
            is_few = self.largest_rows is None or self.largest_rows <= most
            n_rows = int(self.facts["published_rows"])
            return is_few and also.rows.cover(self.facts["forms"], n_rows)
        return self.kind is StatementKind.OPENING and also.opening

    def is_within(self, terms: StatementTerms, facts: Mapping[str, Any]) -> bool:
        """Return True if a statement allows it as far as it is known: facts may be missing here."""
        stated = terms.model_dump()
        same = all(stated.get(key) == value for key, value in self.terms.items())
        absent = _OPTIONAL - self.terms.keys()
        compared = self.facts.keys() - _NEVER_COMPARED
        return (
            terms.kind is self.kind
            and same
            and all(stated[key] is None for key in absent)
            and all(key in facts and facts[key] == self.facts[key] for key in compared)
            and ("n_rows" not in self.facts or _is_near(self.facts, facts))
        )


def _is_near(now: Mapping[str, Any], then: Mapping[str, Any]) -> bool:
    if "n_rows" not in then:
        return False
    difference = abs(now["n_rows"] - then["n_rows"])
    return bool(difference == 0 if now["rows"] else difference * _RANGE <= then["n_rows"])


def charge_act(request: ReleaseRequest) -> Act:
    """Return the act of a charge, as far as its entry tells it."""
    contributes = request.kind is ReleaseKind.CONTRIBUTION
    terms: dict[str, Any] = {
        "study": request.study,
        "content_digest": request.request_digest,
        "mechanism": request.mechanism,
        **request.price.fields(),
        "colluders": request.colluders,
        "honest": request.honest,
    }
    if contributes:
        terms["study_digest"] = request.request_digest
    if request.also is not None:
        terms["also"] = request.also.model_dump()
    replaced = request.replaced
    facts = {
        "name": request.name,
        "command": request.command,
        "data_set": request.data_set,
        "population": request.account.population.name,
        "source_sha256": request.account.source,
        "query_sha256": request.query_sha256,
        "reading_sha256": request.reading_sha256,
        "engine": request.engine,
        "relation": request.relation.value,
        "key": request.key,
        "promise": request.account.population.promise.value,
        "budget_epsilon": decimal_text(request.account.population.budget.epsilon),
        "budget_delta": decimal_text(request.account.population.budget.delta),
        "replaced": None
        if replaced is None
        else [decimal_text(replaced.epsilon), decimal_text(replaced.rho)],
    }
    return Act(StatementKind.CONTRIBUTION if contributes else StatementKind.MODEL, terms, facts)


def entry_act(entry: ApprovedEntry) -> Act:
    """Return the act of an entry, as far as the entry tells it."""
    if isinstance(entry, Reservation):
        return charge_act(entry.request)
    if isinstance(entry, Ballot | SetOpening):
        facts = {"opener_key": entry.key_id}
        return Act(StatementKind.OPENING, _study_terms(entry, entry.set_digest), facts)
    if isinstance(entry, RowsPublication):
        facts = {"forms": entry.forms, "published_rows": str(entry.n_rows)}
        return Act(StatementKind.ROWS, _study_terms(entry, entry.rows_sha256), facts)
    return Act(StatementKind.RECOVERY, {}, {})  # it is one of several: see `recovered_document`


def _study_terms(entry: Ballot | SetOpening | RowsPublication, content: str) -> dict[str, Any]:
    return {"study": entry.study, "study_digest": entry.study_digest, "content_digest": content}


def recovery_act(entries: Sequence[Recovery | Disowning]) -> Act:
    """Return the act of a recovery: all of its entries, in their order; none if it only unlocks."""
    return Act(
        StatementKind.RECOVERY, {}, {"entries": [recovered_document(each) for each in entries]}
    )


def recovered_document(entry: Recovery | Disowning) -> dict[str, Any]:
    """Return what an entry of a recovery says, without number, time and hash."""
    document: dict[str, Any] = json.loads(to_document(entry, previous=b""))
    return {
        key: value
        for key, value in document.items()
        if key not in ("sequence", "time", "previous", "consent")
    }


def policy_act(policy: object) -> Act:
    """Return the act of a policy: the document as it is written."""
    return Act(StatementKind.POLICY, {}, {"policy": policy})


def roles_act(roles: Roles, policy: object) -> Act:
    """Return the act of a version of roles; the first one states the policy, too.

    The digest of the roles may leave, for whoever follows them from a pinned version.
    """
    facts = {"roles": json.loads(roles.content), "policy": policy}
    return Act(StatementKind.ROLES, {"content_digest": roles.sha256}, facts)


def digest_tables(tables: Iterable[tuple[str, str]]) -> str:
    """SHA-256, hexadecimal, of published tables: pairs of a form and its stream's SHA-256."""
    return sha256(canonical_json(sorted(tables))).hexdigest()
