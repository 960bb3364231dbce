"""Kinds of statements that people sign."""

from enum import StrEnum


class StatementKind(StrEnum):
    """What a statement allows."""

    CONTRIBUTION = "contribution"
    MODEL = "model"
    OPENING = "opening"
    ROWS = "rows"
    RECOVERY = "recovery"
    POLICY = "policy"
    ROLES = "roles"

    @property
    def namespace(self) -> str:
        """Namespace of signatures: roles are signed for another one than all else."""
        return "roles@dppca" if self is StatementKind.ROLES else "consent@dppca"
