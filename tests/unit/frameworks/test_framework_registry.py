"""Adapters are found by entry point, those of other packages like Mooring's own."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
import yaml
from framework_jobs import make_job, render_all

from mooring.frameworks import Framework, expand, find, names, starter_files
from mooring.model.errors import BadInput
from mooring.spec import TrainingJob

OWN = ("indexed", "mpi", "pytorch", "tensorflow")

ADAPTER = """
    from mooring.frameworks.base import Framework, RoleFacts, launch
    from mooring.spec import Strategy

    class Relay(Framework):
        name = "relay"
        summary = "a ring of relays"
        strategies = (Strategy.ALL_REDUCE,)
        owned_env = frozenset({"RELAY_NEXT"})

        def roles(self, strategy):
            return {"runner": RoleFacts(required=True)}

        def render(self, member, identity, member_dir):
            runners = identity.of_role("runner")
            following = runners[(member.id.index + 1) % len(runners)]
            return launch(member, identity, env={"RELAY_NEXT": following.address()})
"""


def install(folder: Path, name: str, source: str, entry: str) -> None:
    """A package as an installer leaves it: a module and its dist-info."""
    package = folder / f"{name}_plugin"
    package.mkdir()
    (package / "__init__.py").write_text(textwrap.dedent(source))
    info = folder / f"{name}_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[mooring.frameworks]\n{name} = {entry}\n")


def test_moorings_own_adapters_are_there() -> None:
    assert set(OWN) <= set(names())
    assert [find(name).name for name in OWN] == list(OWN)


def test_another_packages_adapter_is_used_like_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "relay", ADAPTER, "relay_plugin:Relay")
    monkeypatch.syspath_prepend(tmp_path)
    assert "relay" in names()
    job = make_job("relay", {"runner": {"replicas": 3}})
    env = {name: launch.env["RELAY_NEXT"] for name, (_, launch) in render_all(job).items()}
    assert env == {
        "runner-0": "127.0.0.1:7002",
        "runner-1": "127.0.0.1:7003",
        "runner-2": "127.0.0.1:7001",
    }
    with pytest.raises(BadInput, match=r"spec\.roles\.runer: .*accepted: 'runner'"):
        expand(make_job("relay", {"runer": {}}))
    with pytest.raises(BadInput, match=r"spec\.env\.RELAY_NEXT"):
        expand(make_job("relay", {"runner": {}}, env={"RELAY_NEXT": "x"}))
    assert starter_files("relay") == {}


@pytest.mark.parametrize(
    ("source", "entry", "words"),
    [
        ("raise RuntimeError('half installed')", "broken_plugin:Thing", "half installed"),
        ("", "broken_plugin:Thing", "cannot be loaded"),
        ("Thing = 3", "broken_plugin:Thing", "is no mooring.frameworks.Framework"),
    ],
)
def test_a_broken_adapter_is_bad_input_not_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, entry: str, words: str
) -> None:
    install(tmp_path, "broken", source, entry)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_plugin", raising=False)
    with pytest.raises(BadInput, match=r"spec\.framework") as raised:
        find("broken", "my.yaml")
    assert words in str(raised.value)


@pytest.mark.parametrize("name", OWN)
def test_a_starter_is_a_short_valid_job_with_its_script(name: str) -> None:
    files = starter_files(name)
    assert set(files) == {"job.yaml", "train.py"}
    job = TrainingJob.model_validate(yaml.safe_load(files["job.yaml"]))
    assert job.spec.framework == name
    gang = expand(job)
    commands = [member.argv for member in gang.members if member.argv]
    assert all("train.py" in argv for argv in commands)
    assert len(files["job.yaml"].splitlines()) <= 25
    compile(files["train.py"], "train.py", "exec")


@pytest.mark.parametrize("name", OWN)
def test_an_adapter_describes_itself(name: str) -> None:
    adapter = find(name)
    assert isinstance(adapter, Framework)
    assert adapter.summary
    assert all(adapter.roles(strategy) is not None for strategy in adapter.strategies)
