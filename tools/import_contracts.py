"""A contract for import-linter: modules that may import only the named packages."""

import sys
from typing import Any

from grimp import ImportGraph
from importlinter.application import output
from importlinter.domain import fields
from importlinter.domain.contract import Contract, ContractCheck


class AllowedContract(Contract):
    """Modules may import each other, the standard library, and allowed packages.

    Each of ``modules`` (modules and packages) may import ``allowed`` packages; ``allowed_in`` has
    exceptions for single modules, ``module -> package``.
    """

    type_name = "allowed"

    modules = fields.ListField(subfield=fields.ModuleField())
    allowed = fields.SetField(subfield=fields.StringField())
    allowed_in = fields.SetField(subfield=fields.ImportExpressionField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Find imports that no option allows, and options that allow no import."""
        del verbose
        modules: Any = self.modules
        inside = {m for each in modules for m in (each.name, *graph.find_descendants(each.name))}
        missing = sorted(inside - graph.modules)
        exceptions: Any = self.allowed_in
        pairs = {(str(each.importer), str(each.imported)) for each in exceptions}
        allowed: Any = self.allowed
        met = {
            (module, imported)
            for module in inside - set(missing)
            for imported in graph.find_modules_directly_imported_by(module)
            if imported not in inside | set(allowed) | sys.stdlib_module_names
        }
        faults = [f"{module} is no module" for module in missing]
        faults += [f"{module} imports {imported}" for module, imported in sorted(met - pairs)]
        faults += [f"{module} does not import {what}" for module, what in sorted(pairs - met)]
        return ContractCheck(kept=not faults, metadata={"faults": faults})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each fault."""
        for fault in check.metadata["faults"]:
            output.print_error(f"- {fault}")
