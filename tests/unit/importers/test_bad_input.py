"""What is no manifest, or none that is known: exit code 2 and one sentence, never a traceback."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from mooring.cli.main import main

Moor = Callable[..., tuple[int, str, str]]
MANIFEST = Path(__file__).parent / "manifests" / "jaxjob.yaml"
_ANCHORS = zip("abcdef", "bcdefg", strict=True)
CASES = {
    "not YAML": ("a: [", "bad YAML"),
    "nothing": ("", "nothing"),
    "a list": ("- 1\n", "kind"),
    "a text": ("hello\n", "kind"),
    "no kind": ("apiVersion: v1\n", "kind"),
    "a kind that is no text": ("apiVersion: v1\nkind: [TFJob]\n", "kind"),
    "an unknown kind": ("apiVersion: v1\nkind: ConfigMap\n", "--skip KIND"),
    "an unknown version": ("apiVersion: kubeflow.org/v1alpha2\nkind: TFJob\n", "kubeflow.org/v1"),
    "a bomb": (
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}, *{a}]\n" for a, b in _ANCHORS),
        "more than",
    ),
    "too large": ("#" * (1024 * 1024 + 1), "1 MiB"),
    "an empty spec": ("apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n", "spec.template"),
    "everything of the wrong type": (
        "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: 3\nspec: {tfReplicaSpecs: [1], "
        "runPolicy: x}\n",
        "accepted: a mapping",
    ),
    "a tag": ("apiVersion: batch/v1\nkind: !!python/object:os.system Job\n", "tag"),
}


@pytest.fixture
def moor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Moor:
    """The command's own entry point, in this process."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["moor", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        output = capsys.readouterr()
        assert isinstance(exit_.value.code, int)
        return exit_.value.code, output.out, output.err

    return run


@pytest.mark.parametrize("name", CASES)
def test_bad_input(tmp_path: Path, moor: Moor, name: str) -> None:
    text, says = CASES[name]
    path = tmp_path / "m.yaml"
    path.write_text(text)
    code, out, err = moor("import", path)
    assert (code, out) == (2, "")
    assert says in err


def test_the_job_goes_out_and_the_report_to_stderr(tmp_path: Path, moor: Moor) -> None:
    code, out, err = moor("import", MANIFEST, "-o", tmp_path / "j.yaml", "--report", "markdown")
    assert (code, out) == (0, "")
    assert "| `metadata.name` | mapped | metadata.name |" in err
    assert moor("validate", tmp_path / "j.yaml")[0] == 0


def test_the_report_for_programs(moor: Moor) -> None:
    code, out, err = moor("import", MANIFEST, "--report", "json")
    assert code == 0
    assert yaml.safe_load(out)["metadata"]["name"] == "jax-spmd"
    [document] = json.loads(err)[0]["documents"]
    assert document["kind"] == "JAXJob"
    assert {
        "field": "metadata.name",
        "line": 4,
        "outcome": "mapped",
        "to": ["metadata.name"],
        "note": "",
    } in document["fields"]


def test_a_drop_that_drops_nothing_is_an_error(moor: Moor) -> None:
    code, _, err = moor("import", MANIFEST, "--drop", "spec.nothing")
    assert code == 2
    assert "spec.nothing" in err


def test_an_entrypoint_that_is_no_command(moor: Moor) -> None:
    code, _, err = moor("import", MANIFEST, "--entrypoint", "python 'a")
    assert code == 2
    assert "--entrypoint" in err


def test_other_documents_can_be_left_out(tmp_path: Path, moor: Moor) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(MANIFEST.read_text() + "---\napiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n")
    assert moor("import", path)[0] == 2
    code, out, _ = moor("import", path, "--skip", "ConfigMap")
    assert (code, len(list(yaml.safe_load_all(out)))) == (0, 1)


@pytest.mark.parametrize(
    "inner",
    [
        CASES["a bomb"][0],
        "[" * 5000,
        "a: !!python/object/apply:os.system [id]",
        "a: &x [*x]",
        "{a: 1, a: 2}",
        "a: [",
    ],
    ids=["bomb", "nested", "tag", "recursion", "twice", "broken"],
)
def test_yaml_within_a_manifest_has_the_same_bounds(moor: Moor, tmp_path: Path, inner: str) -> None:
    """A RayJob's `runtimeEnvYAML` is a text that is YAML itself."""
    document = yaml.safe_load((MANIFEST.parent / "rayjob.yaml").read_text())
    document["spec"]["runtimeEnvYAML"] = inner
    path = tmp_path / "rayjob.yaml"
    path.write_text(yaml.safe_dump(document))
    code, _, err = moor("import", path)
    assert code == 2 and "spec.runtimeEnvYAML" in err and "Traceback" not in err
