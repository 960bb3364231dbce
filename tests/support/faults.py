"""Values of whole tables that the rules of coding replace."""

from collections.abc import Mapping, Sequence

from dppca.common.kernel.schema import Column, Schema, find_attribute_faults
from dppca.common.kernel.schema.coding import Faults


def find_faults(schema: Schema, columns: Sequence[Column]) -> Mapping[str, Faults]:
    """Return the values that the rules of coding replace, for every attribute."""
    return {
        attribute.name: find_attribute_faults(attribute, column)
        for attribute, column in zip(schema.attributes, columns, strict=True)
    }
