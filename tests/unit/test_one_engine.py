"""A second training engine in the process of the tests is an error with a name, not a crash."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

import pytest

from support.engines import SecondEngine


@pytest.mark.parametrize(("loaded", "second"), [("torch", "tensorflow"), ("tensorflow", "torch")])
def test_the_second_engine_is_refused(
    loaded: str, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, loaded, ModuleType(loaded))
    monkeypatch.delitem(sys.modules, second, raising=False)
    with pytest.raises(SecondEngine, match=f"{second} beside another engine"):
        importlib.import_module(second)


def test_looking_for_an_engine_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    assert importlib.util.find_spec("tensorflow") is not None
