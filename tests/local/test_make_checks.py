"""What `make` says before it downloads anything: interpreter, owner, free space."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AS_ROOT = os.geteuid() == 0


@pytest.fixture
def clone() -> Iterator[Path]:
    """What `make` reads of a fresh clone, in a folder that every user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="clone-"))
    folder.chmod(0o755)
    shutil.copy(ROOT / "Makefile", folder)
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(ROOT / "requirements", folder / "requirements")
    yield folder
    shutil.rmtree(folder)


def pretend(folder: Path, **minors: int) -> str:
    """A PATH with programs that say that they are Pythons of these minor versions, and with no
    others. (`python3_12=12` is python3.12.)
    """
    folder.mkdir()
    for program in (
        "awk",
        "bash",
        "df",
        "dirname",
        "find",
        "head",
        "id",
        "ls",
        "sed",
        "sh",
        "uname",
    ):
        (folder / program).symlink_to(str(shutil.which(program)))
    for name, minor in minors.items():
        program = folder / name.replace("_", ".")
        program.write_text(
            "#!/bin/sh\n"
            f'case "$2" in *version_info*) echo {minor} ;; *ensurepip*) ;; *) echo "$0" ;; esac\n'
        )
        program.chmod(0o755)
    return str(folder)


def check(*words: str, path: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(ROOT / "requirements" / "check.sh"), *words],
        capture_output=True,
        text=True,
        env={"PATH": path, "HOME": "/nowhere", **env},
        timeout=60,
    )


def one_sentence(answer: subprocess.CompletedProcess[str]) -> str:
    assert answer.returncode == 1
    assert answer.stdout == ""
    [sentence] = answer.stderr.splitlines()
    return sentence


def test_the_default_python_is_taken_where_it_fits(tmp_path: Path) -> None:
    path = pretend(tmp_path / "bin", python3=12, python3_13=13)
    assert check("python", "frameworks", "", path=path).stdout == f"{path}/python3\n"


def test_another_python_is_found_where_the_default_is_too_new(tmp_path: Path) -> None:
    path = pretend(tmp_path / "bin", python3=14, python3_12=12)
    assert check("python", "frameworks", "", path=path).stdout == f"{path}/python3.12\n"
    # Mooring alone runs on any.
    assert check("python", "core", "", path=path).stdout == f"{path}/python3\n"


def test_interpreters_of_pyenv_and_uv_are_found(tmp_path: Path) -> None:
    path = pretend(tmp_path / "bin", python3=15)
    for version, home in (("3.12.1", "PYENV_ROOT"), ("cpython-3.13.1", "UV_PYTHON_INSTALL_DIR")):
        versions = tmp_path / home / ("versions" if home == "PYENV_ROOT" else "")
        (versions / version / "bin").mkdir(parents=True)
        program = versions / version / "bin" / "python3"
        shutil.copy(Path(path) / "python3", program)
        program.write_text(program.read_text().replace("echo 15", "echo 12"))
        answer = check("python", "frameworks", "", path=path, **{home: str(tmp_path / home)})
        assert answer.stdout == f"{program}\n", answer.stderr


def test_no_python_with_wheels_is_one_sentence_that_says_how_to_get_one(tmp_path: Path) -> None:
    path = pretend(tmp_path / "bin", python3=14)
    sentence = one_sentence(check("python", "frameworks", "", path=path))
    assert "has wheels for Python 3.11 to 3.13; here is python3 (3.14)" in sentence
    assert "uv python install 3.13" in sentence
    assert "make run TENSORFLOW=VERSION" in sentence
    chosen = check("python", "frameworks", "", path=path, TENSORFLOW="2.99.0")
    assert chosen.stdout == f"{path}/python3\n"


def test_an_old_python_and_none_at_all(tmp_path: Path) -> None:
    old = pretend(tmp_path / "old", python3=9)
    sentence = one_sentence(check("python", "core", "", path=old))
    assert sentence.startswith("Mooring needs Python 3.11 or later; here is python3 (3.9)")
    none = pretend(tmp_path / "none")
    assert "there is none here" in one_sentence(check("python", "core", "", path=none))
    named = one_sentence(check("python", "core", "python3.99", path=none))
    assert "there is none here called python3.99" in named


def test_a_python_without_ensurepip_names_the_package(tmp_path: Path) -> None:
    path = pretend(tmp_path / "bin", python3=11)
    program = tmp_path / "bin" / "python3"
    program.write_text(program.read_text().replace("*ensurepip*) ;;", "*ensurepip*) exit 1 ;;"))
    sentence = one_sentence(check("python", "core", "", path=path))
    assert "cannot make virtual environments: install python3.11-venv" in sentence


def make(clone: Path, *words: str, before: tuple[str, ...] = ()) -> str:
    """What `make` says when it refuses; nothing was made by then, also not side by side."""
    # As typed, although `make test` may have started us.
    typed = {name: text for name, text in os.environ.items() if not name.startswith(("MAKE", "MF"))}
    sentences = set()
    for how in ((), ("--keep-going", "--jobs=4")):
        answer = subprocess.run(
            [*before, "make", "--no-print-directory", *how, *words],
            cwd=clone,
            capture_output=True,
            text=True,
            timeout=60,
            env=typed,
        )
        assert answer.returncode == 2, answer.stdout + answer.stderr
        assert answer.stdout == ""
        sentence, *rest = answer.stderr.splitlines()
        assert rest
        assert all(line.startswith("make") for line in rest)
        sentences.add(sentence)
    [sentence] = sentences
    return sentence


@pytest.mark.skipif(not AS_ROOT, reason="needs root: mounts a file system")
@pytest.mark.root
@pytest.mark.parametrize(("target", "needed"), [("run", "2.0"), ("test", "9.8"), ("lint", "1.0")])
def test_a_full_disk_is_said_before_anything_starts(clone: Path, target: str, needed: str) -> None:
    (clone / "disk").mkdir()
    mounted = f'mount -t tmpfs -o size=100m none {clone}/disk && exec "$@"'
    before = ("unshare", "--mount", "sh", "-c", mounted, "sh")
    sentence = make(clone, target, f"VENV={clone}/disk/venv", before=before)
    assert (
        f"make {target} needs about {needed} GB at {clone}/disk/venv and 0.1 GB are free"
        in sentence
    )
    assert f"make {target} VENV=/other/disk/venv" in sentence


@pytest.mark.skipif(not AS_ROOT, reason="needs root: becomes another user")
@pytest.mark.root
def test_files_of_another_user_are_named(clone: Path) -> None:
    nobody = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
    sentence = make(clone, "run", before=nobody)
    assert "belongs to root and you are nobody: sudo chown -R nobody" in sentence
    # Theirs, but for one file that root's `make` wrote.
    inner = clone / ".venv" / "lib" / "site-packages"
    inner.mkdir(parents=True)
    for path in (clone, clone / ".venv", clone / ".venv" / "lib"):
        shutil.chown(path, "nobody")
    sentence = make(clone, "run", before=nobody)
    assert sentence.startswith(".venv/lib/site-packages belongs to root and you are nobody")


@pytest.mark.skipif(not AS_ROOT, reason="needs root: gives a folder away")
@pytest.mark.root
def test_root_in_the_clone_of_somebody_is_told_whose_files_it_makes(clone: Path) -> None:
    shutil.chown(clone, "nobody")
    answer = check("owner", f"{clone}/.venv", path=os.environ["PATH"])
    assert answer.returncode == 0
    assert answer.stderr.startswith(f"{clone} belongs to nobody and you are root: what make writes")


def test_an_environment_whose_python_is_gone(clone: Path) -> None:
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / ".venv" / "bin" / "python").symlink_to("/nowhere/python")
    sentence = make(clone, "run")
    assert sentence == "the Python of .venv is gone: rm -r .venv, then make run again"
