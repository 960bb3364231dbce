"""Another processor, on which the same command draws other rows."""

from types import ModuleType

import numpy as np
import pytest


def another_processor(patched: pytest.MonkeyPatch, module: ModuleType) -> None:
    """Let a module draw other rows, as where the last digits of products of floats differ."""
    monkeypatched = np.random.default_rng(99)
    patched.setattr(module, "make_generator", lambda *_: monkeypatched)
