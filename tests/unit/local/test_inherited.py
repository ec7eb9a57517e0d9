"""What of an environment may be written down: no secret ever, and what explains a run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.backends.local.inherited import kept_names, kept_values, looks_secret


@pytest.mark.parametrize(
    "name",
    [
        "WANDB_API_KEY",
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "PGPASSWORD",
        "my_secret",
        "TF_TOKEN_app_terraform_io",
        "GITHUB_PAT",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert looks_secret(name)
    assert kept_values({name: "x"}) == {}
    assert kept_names({name: "x"}, (), ()) == [name]


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "PWD", "KEYBOARD", "OMP_NUM_THREADS"])
def test_names_that_are_none(name: str) -> None:
    assert not looks_secret(name)


def test_what_is_kept() -> None:
    environ = {
        "OMP_NUM_THREADS": "4",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NCCL_DEBUG": "INFO",
        "LS_COLORS": "rs=0",
        "DATA_DIR": "/data",
        "HF_TOKEN": "x",
        "FROM_FILE": "y",
    }
    assert kept_values(environ) == {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NCCL_DEBUG": "INFO",
        "OMP_NUM_THREADS": "4",
    }
    names = kept_names(environ, ["FROM_FILE"], ["DATA_DIR", "OMP_NUM_THREADS", "elsewhere"])
    assert names == ["DATA_DIR", "FROM_FILE", "HF_TOKEN"]


@given(st.dictionaries(st.text("ABKEYTOKN_PSW", max_size=12), st.just("secret")))
def test_no_value_of_a_secret_is_kept(environ: dict[str, str]) -> None:
    assert not any(looks_secret(name) for name in kept_values(environ))
