"""A site's mapping for tables in memory: what Python gives `dppca.encode` and `dppca.simulate`."""

from pathlib import Path

from dppca.owner.records import mapping_files
from dppca.owner.records.mapping_files import SiteMapping
from dppca.owner.records.mapping_places import MappingPlace


def read_mapping(path: str | Path) -> SiteMapping:
    """Read how a table's own columns become a study's attributes, from a site's mapping file.

    `dppca.encode`, `dppca.simulate` and `dppca.Components.transform` take it. Each cell is then
    what it is in a file at a site that states the same mapping.

    Raises
    ------
    SettingError
        The file cannot be read, or is no mapping: every fault is named by its line.
    """
    return mapping_files.read_mapping(MappingPlace(Path(path)))
