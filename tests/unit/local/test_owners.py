"""Runs of several users start, end and clean at once: nobody takes what is another's."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mooring.backends.local import cgroups, clean, netns, owners, processes
from mooring.record.process_mark import mark_of


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Claims of the test's own, also without root."""
    monkeypatch.setattr(owners, "_FOLDER", tmp_path / "claims")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("MOORING_HOME", str(tmp_path / "home"))
    yield tmp_path


def test_claims_hold_while_others_come_and_go(folder: Path) -> None:
    def come_and_go(name: str) -> bool:
        found = []
        for number in range(100):
            token = f"{name}{number}"
            owners.claim(token)
            found.append(token in owners.living_tokens() and token not in owners.dead_tokens())
            owners.release(token)
        return all(found)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(come_and_go, "abcd"))
    assert [path.name for path in folder.iterdir()] == []


@pytest.mark.skipif(sys.platform != "linux", reason="has no pid namespaces")
def test_a_claim_of_another_container_is_not_taken_for_a_dead_one(folder: Path) -> None:
    """Process ids of another pid namespace say nothing here."""
    owners.claim("aaaaaa")
    boot, namespace, ticks = mark_of(os.getpid()).split("/")
    for token, mark in {
        "bbbbbb": f"{boot}/{int(namespace) + 1}/{ticks}",
        "cccccc": f"{boot}/{namespace}/{int(ticks) + 1}",
        "dddddd": f"another-boot/{namespace}/{ticks}",
    }.items():
        (folder / "claims" / token).write_text(owners.name_of(os.getpid(), mark))
    assert owners.living_tokens() == {"aaaaaa", "bbbbbb"}
    assert owners.dead_tokens() == {"cccccc", "dddddd"}


def test_a_run_that_starts_while_another_cleans_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def starts_now() -> set[str]:
        owners.claim("abcdef")
        return {"abcdef", "012345"}

    monkeypatch.setattr(netns, "left_tokens", starts_now)
    monkeypatch.setattr(cgroups, "left_tokens", dict)
    monkeypatch.setattr(processes, "marked_processes", lambda run_id: [])
    [removed] = clean.clean_machine(dry_run=True)
    assert "012345" in removed
