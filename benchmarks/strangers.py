"""Is the doctor right about programs that it has never seen?

Programs in the styles of public tutorials, with a cause put into them by a switch of their own, or
with none: benchmarks/strangers. They were written without a look at the doctor's checks. One half
of them is for development; the other is sealed, and run to judge what was developed.

A case that is finished is kept in the half's file of results and not run again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from moored import Moor, temporary_moor
from results import FOLDER as RESULTS
from results import Machine, say, show
from strangers_catalogue import FOLDER, HALVES, Case, Catalogue, load
from strangers_runs import Outcome, doctor, run, stand

#: Removing the cause must make a faulty case so much faster, or it is no case.
LEAST_GAIN = 1.25
#: By how much memory must have grown where the cause is that it grows.
_LEAST_GROWTH_MB = 100
#: What an account may leave of a step, or tell too much.
_ACCOUNT_GAP = 0.05
VALIDITY = FOLDER / "validity.json"


@dataclass(frozen=True)
class Verdict:
    """What the doctor found in a case, and whether that was right.

    `adds_up`: whether the account of a step does; None if there is none.
    """

    cause: str
    found: tuple[str, ...]
    right_first: bool
    right_in_two: bool
    adds_up: bool | None


def main() -> None:
    options = _options()
    catalogue = load(options.causes)
    chosen = [
        case
        for case in catalogue.half(options.half)
        if not options.only or any(options.only in text for text in (case.name, case.cause))
    ]
    if options.list:
        rows = [(case.name, case.cause, case.why) for case in chosen]
        show(f"{options.half} half: {len(rows)} cases", ("case", "cause", "what is done"), rows)
        return
    machine = Machine()
    with temporary_moor() as moor:
        if options.validate:
            _validate(moor, chosen, options)
            return
        path = options.json or RESULTS / f"strangers-{options.half}.json"
        kept: dict[str, Any] = {} if options.again else _read(path).get("cases", {})
        for case in chosen:
            if case.name not in kept:
                try:
                    verdict = judge(moor, case, catalogue, options.seconds)
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    say(f"{case.name}: could not be judged, is left for the next time: {error}")
                    continue
                kept[case.name] = asdict(verdict)
                say(f"{case.name}: {_mark(verdict)} ({case.cause}; {', '.join(verdict.found)})")
                _write(path, {"half": options.half, "machine": machine.facts(), "cases": kept})
    names = {case.name for case in chosen}
    if open_ones := [case.name for case in chosen if not _is_measured(case, VALIDITY)]:
        say(f"not shown to be valid yet (--validate): {', '.join(open_ones)}")
    report(catalogue, {name: Verdict(**kept[name]) for name in kept if name in names})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=HALVES, required=True)
    parser.add_argument("--only", metavar="SUBSTRING", help="cases or causes with it in the name")
    parser.add_argument("--list", action="store_true", help="say what there is, run nothing")
    parser.add_argument("--validate", action="store_true", help="what each cause costs its program")
    parser.add_argument("--again", action="store_true", help="also what was run before")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where results are kept")
    parser.add_argument("--causes", type=Path, default=FOLDER / "causes.yaml", metavar="FILE")
    parser.add_argument("--seconds", type=float, default=12, help="that a case trains")
    parser.add_argument("--pairs", type=int, default=1, help="of runs, when validating")
    return parser.parse_args()


def judge(moor: Moor, case: Case, catalogue: Catalogue, seconds: float) -> Verdict:
    """Run a case, and ask the doctor about it."""
    if case.effect == "hang":
        answer, _ = stand(moor, case.program, case.faulty, seconds, ask=True)
    else:
        folder, outcome = run(moor, case.program, case.faulty, seconds, must_succeed=False)
        if not outcome.ended:
            say(f"{case.name}: the run failed; the doctor is asked all the same")
        answer = doctor(moor, folder)
    return verdict_of(case, catalogue, answer)


def verdict_of(case: Case, catalogue: Catalogue, answer: Mapping[str, Any]) -> Verdict:
    found = tuple(str(finding["id"]) for finding in answer["findings"])
    if case.healthy:
        return Verdict(case.cause, found, not found, not found, _adds_up(answer))
    ids = catalogue.causes[case.cause].ids
    right = [finding in ids for finding in found]
    return Verdict(case.cause, found, any(right[:1]), any(right[:2]), _adds_up(answer))


def _adds_up(answer: Mapping[str, Any]) -> bool | None:
    """Whether the parts of every rank's step make up the whole within 5 %, and the doctor says so
    itself; None if there is no account of any rank."""
    ranks = (answer.get("account") or {}).get("ranks", [])
    if not ranks:
        return None
    wholes = [sum(float(share) for share in rank["parts"].values()) for rank in ranks]
    return all(rank["adds_up"] for rank in ranks) and all(
        abs(whole - 1) <= _ACCOUNT_GAP for whole in wholes
    )


def report(catalogue: Catalogue, verdicts: Mapping[str, Verdict]) -> None:
    rows = [
        (name, verdict.cause, ", ".join(verdict.found) or "-", _mark(verdict))
        for name, verdict in verdicts.items()
    ]
    show("", ("case", "cause", "found", ""), rows)
    faulty = [one for one in verdicts.values() if one.cause in catalogue.causes]
    healthy = [one for one in verdicts.values() if one.cause not in catalogue.causes]
    told = [one.adds_up for one in verdicts.values() if one.adds_up is not None]
    print(f"right first: {sum(one.right_first for one in faulty)} of {len(faulty)}")
    print(f"right in the first two: {sum(one.right_in_two for one in faulty)} of {len(faulty)}")
    alarms = sum(not one.right_first for one in healthy)
    print(f"false alarms: {alarms} of {len(healthy)} healthy")
    print(f"account adds up: {sum(told)} of {len(told)} that have one")


def _mark(verdict: Verdict) -> str:
    if verdict.right_first:
        return "right"
    return "second" if verdict.right_in_two else "wrong"


def _validate(moor: Moor, cases: Sequence[Case], options: argparse.Namespace) -> None:
    """Run each faulty case with and without its cause in turn, and write down the ratio."""
    path = options.json or VALIDITY
    for case in cases:
        if options.again or not _is_measured(case, path):
            try:
                measured = proof(moor, case, options.seconds, options.pairs)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                say(f"{case.name}: {error}")
                measured = {"error": str(error)[-300:], "valid": False}
            _write(path, {**_read(path), case.name: {"of": case.fingerprint, **measured}})
            say(f"{case.name} ({case.cause}): {measured}")
    valid = _read(path)
    for case in cases:
        if not case.healthy and not valid[case.name]["valid"]:
            print(f"not valid: {case.name} ({case.cause}): {valid[case.name]}")


def _is_measured(case: Case, path: Path) -> bool:
    """Whether a case needs no proof, or has one of it as it is now."""
    return case.healthy or _read(path).get(case.name, {}).get("of") == case.fingerprint


def proof(moor: Moor, case: Case, seconds: float, pairs: int) -> dict[str, Any]:
    """That the cause is one: how much faster the program is without it (medians of all pairs), how
    much memory it takes, or that it does not end."""
    if case.effect == "hang":
        _, with_it = stand(moor, case.program, case.faulty, seconds, ask=False)
        _, without = run(moor, case.program, case.sound, seconds)
        return {"ends": [with_it.ended, without.ended], "valid": not with_it.ended}
    faulty: list[Outcome] = []
    sound: list[Outcome] = []
    for number in range(pairs):
        turns = [(case.faulty, faulty), (case.sound, sound)]
        for setting, outcomes in turns if number % 2 == 0 else reversed(turns):
            outcomes.append(run(moor, case.program, setting, seconds)[1])
    if case.effect == "memory":
        grown = [round(bad.peak_mb - good.peak_mb) for bad, good in zip(faulty, sound, strict=True)]
        return {"grown_mb": grown, "valid": min(grown) >= _LEAST_GROWTH_MB}
    gains = [
        round(good.examples_per_s / bad.examples_per_s, 2)
        for bad, good in zip(faulty, sound, strict=True)
    ]
    gain = statistics.median(gains)
    rate = round(statistics.median(bad.examples_per_s for bad in faulty), 1)
    return {"gains": gains, "examples_per_s": rate, "valid": gain >= LEAST_GAIN}


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def _write(path: Path, document: Mapping[str, object]) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
