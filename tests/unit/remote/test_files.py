"""What of a job's files goes to a cluster: nothing from outside its folder, nothing in silence."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from mooring.backends.kubernetes.client.files import Packed, pack
from mooring.model.errors import BadInput
from mooring.spec import parse_job
from mooring.spec.write import dump_yaml


def packed(folder: Path, *files: str) -> Packed:
    spec: dict[str, Any] = {"framework": "indexed", "command": ["true"], "roles": {"worker": {}}}
    document = {
        "apiVersion": "mooring.dev/v1",
        "kind": "TrainingJob",
        "metadata": {"name": "a"},
        "spec": {**spec, "files": list(files)},
    }
    return pack(parse_job(dump_yaml(document), "job.yaml"), folder, "job.yaml")


def contents(found: Packed) -> dict[str, bytes | None]:
    assert found.archive is not None
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(found.archive))) as archive:
        return {
            item.name: None if item.isdir() else archive.extractfile(item).read()  # type: ignore[union-attr]
            for item in archive
        }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "job"
    (home / "data" / "deep").mkdir(parents=True)
    (home / "train.py").write_text("train")
    (home / "data" / "table").write_text("table")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_text("secret")
    return home


def test_a_link_within_the_folder_is_the_file_that_it_leads_to(folder: Path) -> None:
    (folder / "latest").symlink_to("data/table")
    (folder / "data" / "again").symlink_to("../train.py")
    found = packed(folder, "latest", "data")
    assert contents(found) == {
        "latest": b"table",
        "data": None,
        "data/again": b"train",
        "data/deep": None,
        "data/table": b"table",
    }
    assert found.left_out == ()


def test_what_leads_out_is_left_out_and_said(folder: Path) -> None:
    (folder / "data" / "away").symlink_to("../../secret")
    (folder / "data" / "deep" / "folder").symlink_to(folder.parent / "outside")
    (folder / "data" / "nowhere").symlink_to("missing")
    (folder / "data" / "round").symlink_to("..")
    os.mkfifo(folder / "data" / "pipe")
    found = packed(folder, "data")
    assert b"secret" not in b"".join(text or b"" for text in contents(found).values())
    assert found.left_out == (
        "data/away is left out: a link that leads out of the job's folder",
        "data/deep/folder is left out: a link that leads out of the job's folder",
        "data/nowhere is left out: a link to nothing",
        "data/pipe is left out: neither a file nor a folder",
        "data/round is left out: a link to a folder that it is in",
    )


@pytest.mark.parametrize("name", ["away", "folder/key"])
def test_a_name_that_leads_out_is_refused(folder: Path, name: str) -> None:
    (folder / "away").symlink_to(folder.parent / "secret")
    (folder / "folder").symlink_to(folder.parent / "outside")
    with pytest.raises(BadInput, match=r"spec.files\[0\].*leads out of the job's folder"):
        packed(folder, name)


def test_folders_that_lead_to_each_other_have_an_end(folder: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        (folder / "data" / name).mkdir()
        for number in range(3):
            (folder / "data" / name / f"link{number}").symlink_to(f"../{other}")
    found = packed(folder, "data")
    assert all("a folder that it is in" in said for said in found.left_out)
    assert len(contents(found)) < 50


def test_the_same_files_are_the_same_bytes(folder: Path) -> None:
    first = packed(folder, "data", "train.py")
    os.utime(folder / "train.py", (1, 1))
    assert packed(folder, "data", "train.py") == first
