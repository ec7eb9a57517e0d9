"""Where the programs come from, and what is said when they cannot be had. Nothing is run here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kube.cluster import binaries, build
from kube.cluster.binaries import ALL, CNI_PLUGINS, MissingProgram
from kube.cluster.debian import NotAvailable
from kube.cluster.progress import Progress

TESTS = Path(__file__).resolve().parents[1]


def program(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\necho Kubernetes v1.31.2\n")
        path.chmod(0o755)
    return folder


def whole(folder: Path) -> Path:
    return program(folder, *ALL, *(f"cni/{name}" for name in CNI_PLUGINS))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; its folder does not exist yet."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "mooring" / "kubernetes" / binaries.BUILT_VERSION


def test_assets_come_before_the_cache_and_are_not_mixed_with_it(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole(cache)
    assets = program(tmp_path / "assets", "etcd", "kube-apiserver", "kubectl")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    found = binaries.find()
    assert found.version == (1, 31)
    assert found.path("etcd") == assets / "etcd"
    assert found.missing("kubectl", "kube-scheduler") == ["kube-scheduler"]


def test_assets_without_an_api_server_are_an_error_that_names_it(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole(cache)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(program(tmp_path / "assets", "etcd")))
    with pytest.raises(MissingProgram, match="assets has no kube-apiserver"):
        binaries.find()


def test_a_cache_that_is_not_whole_is_none(cache: Path) -> None:
    whole(cache)
    assert binaries.find().folder == cache
    (cache / "cni" / "bridge").unlink()
    with pytest.raises(MissingProgram, match="make kube"):
        binaries.find()


def test_a_whole_cache_is_not_built_again(cache: Path) -> None:
    whole(cache)
    assert build.build() == cache


def test_without_apt_the_build_says_so(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(build, "NEEDED_BYTES", 0)
    with pytest.raises(NotAvailable, match="no Debian: apt-get is not here"):
        build.build()
    assert not cache.exists()


def test_without_a_network_the_build_says_so(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An apt-get that fails as the real one does when it reaches nobody."""
    said = "E: Failed to fetch http://deb.debian.org/debian: Could not resolve 'deb.debian.org'"
    for name, text in {"apt-get": f'echo "{said}" >&2; exit 100', "dpkg-deb": "exit 0"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("kube.cluster.debian.KEYRING", tmp_path / "apt-get")
    monkeypatch.setattr(build, "NEEDED_BYTES", 0)
    with pytest.raises(NotAvailable, match="apt-get update failed:\nE: Failed to fetch"):
        build.build()


def test_a_full_disk_is_seen_before_the_build(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "NEEDED_BYTES", 2**70)
    with pytest.raises(NotAvailable, match="GiB free; the build needs"):
        build.build()


@pytest.mark.slow
@pytest.mark.parametrize(("ci", "outcome"), [("true", "1 error"), ("", "1 skipped")])
def test_without_programs_tests_are_skipped_and_fail_in_ci(
    cache: Path, tmp_path: Path, ci: str, outcome: str
) -> None:
    test = f"{TESTS}/kube/test_bed.py::test_the_api_server_answers"
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test],
        cwd=TESTS.parent,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "no Kubernetes for this test: there is no Kubernetes" in answer.stdout
    assert outcome in answer.stdout
    assert answer.returncode == (1 if ci else 0)


def test_progress_counts_on_after_an_interruption(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for lines, said in ((["a/b\n", "c\n"], "2 of 3"), (["c\n", "d.e/f\n"], "3 of 3")):
        with Progress(3, tmp_path / "compiled.txt") as progress:
            assert all(progress.step(line) for line in lines)
            assert not progress.step("# c\n")
            assert not progress.step("x.go:1:2: undefined: y\n")
        assert f"compiled {said} packages" in capsys.readouterr().err
