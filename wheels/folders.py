"""Hook of hatchling for the wheels here: each takes folders of the root.

An editable installation takes none: it leads to the root, where the folders are.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Folders(BuildHookInterface[Any]):
    """Adds the files below ``folders``, paths of the root by their places in the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add them to a wheel that is no editable one."""
        if version == "standard":
            build_data["force_include"].update(
                {
                    f"{self.root}/../../{source}": place
                    for source, place in self.config["folders"].items()
                }
            )
