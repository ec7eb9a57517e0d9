"""The environment that members inherit, and what of it may be written down.

Values reach members by inheritance alone. A run's record keeps those that explain a run's speed and
are never secret, and of others that matter to a program the names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from mooring import frameworks
from mooring.model.errors import BadInput, Problem
from mooring.spec import TrainingJob

#: Threads, devices, libraries of communication, engines: what a diagnosis or a rerun asks for.
_KEPT = (
    "OMP_*",
    "KMP_*",
    "GOMP_*",
    "MKL_*",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_*",
    "VECLIB_*",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUBLAS_WORKSPACE_CONFIG",
    "NVIDIA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "NCCL_*",
    "RCCL_*",
    "GLOO_*",
    "UCX_*",
    "TORCH_*",
    "TORCHINDUCTOR_*",
    "PYTORCH_*",
    # Not all of TF_*: Terraform keeps its own there.
    "TF_CONFIG",
    "TF_CPP_*",
    "TF_CUDNN_*",
    "TF_DETERMINISTIC_OPS",
    "TF_DISABLE_*",
    "TF_ENABLE_*",
    "TF_FORCE_*",
    "TF_FUNCTION_JIT_COMPILE_DEFAULT",
    "TF_GPU_*",
    "TF_INTER_*",
    "TF_INTRA_*",
    "TF_NUM_*",
    "TF_USE_*",
    "TF_XLA_*",
    "XLA_FLAGS",
    "KERAS_BACKEND",
    "JAX_PLATFORMS",
    "GRPC_VERBOSITY",
    "GRPC_FAIL_FAST",
    "OMPI_MCA_*",
    "TOKENIZERS_PARALLELISM",
    "MALLOC_*",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "PYTHONHASHSEED",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
)
_SECRET_WORDS = frozenset(
    {"KEY", "KEYS", "APIKEY", "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASS"}
    | {"PASSPHRASE", "CREDENTIAL", "CREDENTIALS", "AUTH", "COOKIE", "DSN", "PAT", "BEARER"}
)


def looks_secret(name: str) -> bool:
    """Whether the value of a variable with this name should be seen by nobody."""
    upper = name.upper()
    return not _SECRET_WORDS.isdisjoint(upper.split("_")) or "SECRET" in upper or "PASSW" in upper


def kept_values(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables whose values are written down."""
    return {
        name: environ[name]
        for name in sorted(environ)
        if any(fnmatchcase(name, pattern) for pattern in _KEPT) and not looks_secret(name)
    }


def kept_names(
    environ: Mapping[str, str], given: Collection[str], texts: Collection[str]
) -> list[str]:
    """The variables of which only the name is written down.

    given: those of `--env-file`; texts: the texts in the programs, which name what they read.
    """
    matter = {name for name in environ if name in texts or looks_secret(name)}
    return sorted((matter | set(given)) - kept_values(environ).keys())


def refuse_owned(job: TrainingJob, variables: Mapping[str, str], source: str) -> None:
    """Raises BadInput for variables that members get from their identity."""
    framework = frameworks.find(job.spec.framework)
    found, accepted = (
        "a variable that Mooring sets from the member's identity",
        "any other variable",
    )
    problems = [Problem(name, found, accepted) for name in variables if framework.owns(name)]
    if problems:
        raise BadInput(source, problems)
