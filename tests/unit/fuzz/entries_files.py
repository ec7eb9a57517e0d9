"""Files that users give, and files of runs, which anybody may have written."""

from __future__ import annotations

import functools
import io
import shutil
import tempfile
import unicodedata
from datetime import datetime
from pathlib import Path

from fuzz.entry import entry
from mooring import frameworks
from mooring.brain.profiles import read as read_profile
from mooring.doctor import diagnose_run
from mooring.doctor.comparing import compare
from mooring.doctor.read_log import parse_log
from mooring.doctor.read_run import read_run
from mooring.importers import import_manifests, render
from mooring.model.amounts import duration
from mooring.model.strict_json import json_text
from mooring.record.logs import LogTail, read_log
from mooring.record.made import made_files, others
from mooring.record.plan_file import read_holdings
from mooring.record.runs import RunRecord, open_run
from mooring.record.start import changes_since, read_start
from mooring.report.export_csv import to_csv
from mooring.report.export_prometheus import to_prometheus
from mooring.report.finish import read_report
from mooring.report.html import render_html
from mooring.report.listing import line_of
from mooring.report.printable import printable
from mooring.report.series import read_series
from mooring.report.text import number, report
from mooring.simulate.trace import parse_csv, parse_workload
from mooring.spec import parse_job
from mooring.spec.document import parse_document
from mooring.spec.edit import Change, edit
from mooring.spec.env_file import parse_env
from mooring.spec.load import check_pool, parse_cluster
from mooring.stalls.standing import parse_dump
from mooring.variables import compare as place_variables
from mooring.variables import from_run
from mooring.variables.from_timeline import parse_timeline

_HERE = Path(__file__).parent
_UNIT = _HERE.parent
_EXAMPLES = sorted((_UNIT.parents[1] / "examples").glob("*/*.yaml"))
_JOBS = [path.read_bytes() for path in _EXAMPLES if b"kind: TrainingJob" in path.read_bytes()]
_CLUSTERS = [path.read_bytes() for path in _EXAMPLES if b"kind: Cluster" in path.read_bytes()]
_MANIFESTS = [path.read_bytes() for path in sorted((_UNIT / "importers/manifests").glob("*.yaml"))]


def _kept(name: str) -> bytes:
    return (_HERE / "seeds" / name).read_bytes()


@entry("job file", _JOBS, group="files of users")
def job_file(data: bytes) -> None:
    job = parse_job(_text(data), "job.yaml")
    frameworks.expand(job, "job.yaml")
    parse_job(job.to_yaml(), "again.yaml")


@entry("--set", ["spec.roles.worker.replicas=3", "spec.env.A=b"], group="files of users")
def overrides(data: bytes) -> None:
    parse_job(_JOBS[0].decode(), "job.yaml", [_text(data)])


@entry("edits of a job file", _JOBS, group="files of users")
def edits(data: bytes) -> None:
    text = _text(data)
    parse_job(text, "job.yaml")
    edit(text, [Change(("spec", "threads"), 2), Change(("spec", "env", "A"), "b")], "job.yaml")


@entry("cluster file", [*_CLUSTERS, _kept("cluster.yaml")], group="files of users")
def cluster_file(data: bytes) -> None:
    parse_cluster(_text(data), "cluster.yaml")


@entry("pool", [_kept("pool.json")], group="files of users")
def pool(data: bytes) -> None:
    check_pool(parse_document(_text(data), "pool").data, "pool")


@entry("workload file", [_kept("workload.yaml")], group="files of users")
def workload(data: bytes) -> None:
    parse_workload(_text(data), "workload.yaml")


@entry("trace (CSV)", [_kept("trace.csv")], group="files of users")
def trace(data: bytes) -> None:
    parse_csv(_text(data), "trace.csv")


@entry("profile", [_kept("profile.yaml")], group="files of users")
def profile(data: bytes) -> None:
    read_profile(parse_document(_text(data), "profile.yaml").data, "profile.yaml")


@entry(
    "variables file (--env-file)",
    ["A=b\nexport C='d e'\n# x\nF=\"g\\nh\"\n"],
    group="files of users",
)
def env_file(data: bytes) -> None:
    parse_env(_text(data), "x.env")


@entry("manifests of other operators", _MANIFESTS, group="files of users")
def manifests(data: bytes) -> None:
    results = import_manifests(
        [("x.yaml", _text(data))], drops=(), skip=(), entrypoint=(), name=None
    )
    for style in ("text", "json", "markdown"):
        render(results, style)


@entry("timeline.json", [_kept("timeline.json")], group="files of users")
def timeline(data: bytes) -> None:
    place_variables(parse_timeline(data, "timeline.json"))


@entry("log for compare", [_kept("compare.log")], group="files of users")
def log_for_compare(data: bytes) -> None:
    side = parse_log(data.decode("utf-8", "replace"), "log")
    other = parse_log("resnet18 train time : 50 ms\nresnet50 train time : 99 ms", "other")
    for found in (compare(side, other), compare(side, side)):
        json_text(found.document())


def _text(data: bytes) -> str:
    """As files are read: what is no UTF-8 is refused before anything else."""
    return data.decode("utf-8", "replace")


@functools.cache
def _run_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="mooring-fuzz-"))
    import atexit

    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _run_with(name: str, data: bytes) -> RunRecord | None:
    """A run of which one file is this."""
    folder = _run_folder() / name.replace("/", "-")
    if not folder.exists():
        shutil.copytree(_HERE / "seeds/run", folder)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    return open_run(folder)


def _look_at(run: RunRecord) -> None:
    """All that commands show of a run."""
    from rich.console import Console

    figures = read_report(run)
    Console(file=io.StringIO(), width=120, markup=False).print(report(figures))
    json_text(figures.document())
    render_html(run, figures)
    to_prometheus(figures)
    to_csv(figures, read_series(run, [one.member for one in figures.members]))
    diagnose_run(read_run(run))


def _seed(name: str) -> bytes:
    return (_HERE / "seeds/run" / name).read_bytes()


def _of_run(name: str) -> None:
    @entry(f"run: {name}", [_seed(name)], group="files of runs")
    def file_of_run(data: bytes) -> None:
        run = _run_with(name, data)
        if run is not None:
            _look_at(run)


for _name in (
    "run.json",
    "plan.json",
    "job.yaml",
    "events.jsonl",
    "samples/worker-0.jsonl",
    "samples/ps-0.jsonl",
):
    _of_run(_name)


@entry("run: report.json", [_kept("report.json")], group="files of runs")
def report_file(data: bytes) -> None:
    run = _run_with("report.json", data)
    assert run is not None
    line = line_of(run)
    duration(line.took_s)
    number(line.examples_per_s)
    datetime.fromtimestamp(line.started_s)


@entry("run: fix.json", [_kept("fix.json")], group="files of runs")
def fix_file(data: bytes) -> None:
    run = _run_with("fix.json", data)
    assert run is not None
    read_report(run)


@entry("run: start.json", [_seed("start.json")], group="files of runs")
def start_file(data: bytes) -> None:
    run = _run_with("start.json", data)
    assert run is not None
    start = read_start(run)
    if start is not None:
        changes_since(start, {"A": "b"}, with_programs=False)
        assert isinstance(start.python_said, str)


@entry("run: plan.json of a neighbour", [_seed("plan.json")], group="files of runs")
def neighbours_plan(data: bytes) -> None:
    run = _run_with("plan.json", data)
    assert run is not None
    for holding in read_holdings(run.plan_file):
        sum(holding.slot.cpus) + holding.resources.cpu_millis + holding.resources.memory_bytes
        str(holding.member.name)


@entry("run: files.json", ['{"train.py": [10, 12345], "data/x": [1, 2]}'], group="files of runs")
def copies(data: bytes) -> None:
    run = _run_with("files.json", data)
    assert run is not None
    (run.files_dir / "data").mkdir(parents=True, exist_ok=True)
    (run.files_dir / "train.py").write_text("x")
    list(made_files(run.root))
    others(run.root)


@entry("run: variables of samples", [_seed("samples/worker-0.jsonl")], group="files of runs")
def variables(data: bytes) -> None:
    run = _run_with("samples/worker-0.jsonl", data)
    assert run is not None
    json_text(str(place_variables(from_run.read_run(run))))


@entry("run: logs", [_seed("logs/worker-0.log")], group="files of runs")
def logs(data: bytes) -> None:
    run = _run_with("logs/worker-0.log", data)
    assert run is not None
    path = run.log_file("worker-0")
    for line in read_log(path, "worker-0"):
        assert not {"Cc", "Cs"} & set(map(unicodedata.category, printable(line.text)))
    tail = LogTail(path, "worker-0")
    tail.start_at_last(5)
    tail.read(10)


@entry("py-spy: stacks of a standstill", [_kept("dump.json")], ValueError, group="files of runs")
def dump(data: bytes) -> None:
    parse_dump(_text(data), 7)
