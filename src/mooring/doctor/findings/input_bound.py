"""The trainers wait for data, or prepare it themselves instead of training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from mooring.doctor.facts import MemberFacts, ReadFacts, RunFacts, StackFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.accounts import unnamed
from mooring.doctor.findings.input_account import REMOTE, found_by_account, ranks_by_account
from mooring.doctor.findings.measured import SAMPLES, whole_cpus
from mooring.doctor.findings.straggler_account import waited_for
from mooring.doctor.findings.trainers import STACKS, at_least, trainers, watched
from mooring.doctor.registry import CheckPage, NotRecognised, Unknown, run_check
from mooring.spec.edit import Change
from mooring.stacks.categories import Category

#: Collating batches of tensors that are in memory takes up to a tenth of a small model's step.
_LEAST = 0.2
#: Of the share that it waits: so much time without a CPU explains the waiting.
_EXPLAINED = 0.5
#: A read of less than this from a network or a disk costs its round trip, not its bytes.
_SMALL_READ_BYTES = 64 << 10
_MANY_READS_PER_S = 200.0
#: Seen open in looks a second apart: a single one may be a log, a lock or a packed data set.
_MANY_FILES = 2
#: Loaders that use this part of a CPU compute; the others wait.
_COMPUTES = 0.5
#: Looks do not tell 97 % from 100 %.
_MOST_SHARE = 0.97
_MOST_LOADERS = 32
_FULL = 0.85
_SERVED = 0.5
_PAGE = CheckPage(
    why="While a trainer waits for its next batch, or reads and decodes it, no device computes.",
    measured="Looks of the launcher at each trainer's main thread while the job trained: the "
    "share of looks in which it waits for loaders (torch's DataLoader, tf.data's iterator) or "
    "prepares data itself (a dataset's `__getitem__`, collating, image and table readers, "
    "`open`). Reported when that is surely more than 20 %, unless its loaders wait for a CPU. "
    "The likely cause comes from the number of its loader processes, the member's CPU time, and "
    "reads and bytes in /proc/PID/io (of pipes and sockets, too), with the file systems of its "
    "open files. Workers of parameter servers read inside TensorFlow: there it cannot be told.",
    fix="Loader processes and prefetching: as many as load a batch in the time that a step "
    "computes (time to load ÷ time to compute), and where loading uses a CPU no more than there "
    "are CPUs; files packed into large ones; a local copy of remote data; data prepared once "
    "instead of in every epoch.",
    not_when="The model is so small that any input is slower: then the job needs no more devices.",
)


@dataclass(frozen=True)
class _Cause:
    """`faster`: how many times at most, by what the looks tell of a step."""

    says: str
    does: str
    faster: float
    code: str = ""
    changes: tuple[Change, ...] = ()


@run_check("input-bound", "Trainers wait for data", _PAGE)
def input_bound(facts: RunFacts) -> Iterator[Found]:
    waited = waited_for(facts)
    late = waited.found.members if waited is not None else ()
    by_account = [one for one in ranks_by_account(facts) if one.member not in late]
    try:
        looked_at = trainers(facts)
    except Unknown:
        if not by_account:
            raise
        yield found_by_account(by_account)
        return
    # One that makes the others wait for it is the finding: see straggler.
    seen = [
        (member, stack, _share(stack))
        for member, stack in looked_at
        if at_least(_share(stack), stack.looks) >= _LEAST
        and not _starved(member, stack)
        and member.name not in late
    ]
    if not seen and by_account:
        yield found_by_account(by_account)
        return
    if not seen:
        if what := unnamed(facts):
            raise NotRecognised(what)
        if any(stack.share(Category.SERVING) >= _SERVED for _, stack in watched(facts)):
            raise Unknown("the workers read inside TensorFlow, out of sight of stacks")
        return
    member, stack, share = max(seen, key=lambda one: one[2])
    cause = _cause(facts, member, stack)
    remote = [kind for kind in _file_systems(stack) if kind.startswith(REMOTE)]
    where = f"; files are on {', '.join(remote)}" if remote else ""
    yield Found(
        says=f"{member.name}: {100 * share:.0f} % of the time goes into input; {cause.says}{where}",
        evidence=tuple(_evidence(member, stack, share)),
        remedy=Remedy(
            cause.does,
            cause.changes,
            cause.code,
            stack.places.get(_main(stack), "the training program"),
        ),
        confidence=Confidence.LIKELY,
        weight=min(0.95, share),
        members=tuple(dict.fromkeys(member.name for member, _, _ in seen)),
        gain=Gain(1.0, max(1.0, cause.faster), _basis(stack, share)),
    )


def _share(stack: StackFacts) -> float:
    return stack.share(Category.LOADING, Category.WAITING)


def _main(stack: StackFacts) -> Category:
    """Whether it rather loads or waits."""
    return max((Category.LOADING, Category.WAITING), key=stack.share)


def _starved(member: MemberFacts, stack: StackFacts) -> bool:
    """Its loaders are ready to run and get no CPU: somebody else's work, or a quota.

    A trainer that loads by itself is slowed down in all that it does, which changes no share.
    """
    if _main(stack) is Category.LOADING or member.use is None:
        return False
    without_s = (member.use.wait_s or 0.0) + member.use.throttled_s
    return without_s / member.use.span_s >= _EXPLAINED * stack.share(Category.WAITING)


def _file_systems(stack: StackFacts) -> tuple[str, ...]:
    return stack.reads.file_systems if stack.reads is not None else ()


def _basis(stack: StackFacts, share: float) -> str:
    return f"at most: {100 * share:.0f} % of {stack.looks} looks were at input"


def _cause(facts: RunFacts, member: MemberFacts, stack: StackFacts) -> _Cause:
    cpus = max(1, int(member.usable_cpus))
    always = _times(1 - _share(stack))
    advised = _advised(member, stack, cpus)
    small = _small_reads(stack.reads)
    if _main(stack) is Category.LOADING:
        share = stack.share(Category.LOADING)
        # Loaded beside the training, a step takes as long as the longer of the two.
        faster = _times(max(1 - share, share / advised.loaders))
        if small:
            says = f"the trainer itself makes {small}"
            return _Cause(says, _PACK_DOES, always, _loader_code(advised.loaders))
        return _Cause(
            f"the trainer reads and prepares each batch itself{advised.why}",
            f"{advised.said} beside it",
            faster,
            _loader_code(advised.loaders),
        )
    full = member.use is not None and member.use.cpus >= _FULL * member.usable_cpus
    if stack.loaders == 0 and facts.job.spec.framework == "tensorflow":
        does = "prefetch and map in parallel"
        return _Cause("tf.data does not keep up", does, always, _tf_code(cpus))
    if full:
        wanted = whole_cpus(member.usable_cpus / (1 - min(0.75, stack.share(Category.WAITING))))
        path = ("spec", "roles", member.role, "resources", "cpu")
        return _Cause(
            f"its {stack.loaders} loaders use all CPUs that it has",
            f"prepare the data once and store it, or ask for {wanted} CPUs",
            min(always, wanted / member.usable_cpus),
            changes=(Change(path, wanted),) if member.exclusive else (),
        )
    if small:
        return _Cause(f"its loaders make {small}", _PACK_DOES, always, _loader_code(2 * cpus))
    if 0 < stack.loaders < advised.loaders:
        return _Cause(
            f"{stack.loaders} loader{'s' if stack.loaders > 1 else ''} on {cpus} CPUs{advised.why}",
            f"{advised.said}, with more batches ahead",
            min(always, advised.loaders / stack.loaders),
            _loader_code(advised.loaders),
        )
    return _Cause(
        "its loaders wait too: the storage does not keep up",
        "copy the data to a local disk first, or read more at once: loaders beyond the number of "
        "CPUs help while they only wait",
        always,
        _loader_code(2 * max(cpus, stack.loaders)),
    )


def _times(left: float) -> float:
    """How many times faster it is if this part of the time is left; looks tell no more than 10."""
    return min(10.0, 1 / max(left, 0.01))


@dataclass(frozen=True)
class _Advised:
    loaders: int
    why: str = ""

    @property
    def said(self) -> str:
        return f"{self.loaders} loader process{'es' if self.loaders > 1 else ''}"


def _advised(member: MemberFacts, stack: StackFacts, cpus: int) -> _Advised:
    """As many loaders as load a batch in the time of a step: loading ÷ computing.

    Loading that uses a CPU gains nothing from more loaders than there are CPUs; loading that waits
    for storage, a network or a lock does.
    """
    if _main(stack) is Category.LOADING:
        share = min(stack.share(Category.LOADING), _MOST_SHARE)
        wanted = share / (1 - share)
    else:
        share = min(stack.share(Category.WAITING), _MOST_SHARE)
        wanted = stack.loaders / (1 - share)
    needed = min(_MOST_LOADERS, max(1, ceil(wanted - 0.05)))
    uses = _loading_cpus(stack)
    most = max(1, cpus // member.processes - 1)
    if uses is None:
        return _Advised(min(needed, most))
    if uses < _COMPUTES:
        return _Advised(needed, "; loading waits rather than computes")
    return _Advised(min(needed, most), "; loading uses a CPU")


def _loading_cpus(stack: StackFacts) -> float | None:
    """The part of a CPU that loading uses while it loads; None: nobody looked.

    While the main thread trains it is taken to use a whole CPU, so this is what surely is left for
    loading.
    """
    reads = stack.reads
    if _main(stack) is Category.LOADING:
        if reads is None or reads.main_cpus is None:
            return None
        share = stack.share(Category.LOADING)
        return max(0.0, reads.main_cpus - (1 - share)) / share
    if reads is None or reads.loader_cpus is None or not stack.loaders:
        return None
    return reads.loader_cpus / stack.loaders


def _small_reads(reads: ReadFacts | None) -> str:
    """Reads of pipes and sockets count too: without files that were seen open it is not files."""
    if reads is None or reads.calls_per_s < _MANY_READS_PER_S or reads.files < _MANY_FILES:
        return ""
    each = reads.asked_bytes_per_s / reads.calls_per_s
    if each >= _SMALL_READ_BYTES:
        return ""
    return f"{reads.calls_per_s:,.0f} reads a second of {each / 1000:.1f} kB: many small files"


def _evidence(member: MemberFacts, stack: StackFacts, share: float) -> Iterator[Figure]:
    who = (member.name,)
    yield Figure("share of input", 100 * share, "%", STACKS, who)
    yield Figure("waits for loaders", 100 * stack.share(Category.WAITING), "%", STACKS, who)
    yield Figure("looks at its stack", stack.looks, "", STACKS, who)
    if place := stack.places.get(_main(stack)):
        yield Figure("seen most at", place, "", STACKS, who)
    yield Figure("loader processes", stack.loaders, "", STACKS, who)
    if (uses := _loading_cpus(stack)) is not None:
        yield Figure("of a CPU that loading wants while it loads", 100 * uses, "%", STACKS, who)
    if member.use is not None:
        yield Figure("CPUs used", member.use.cpus, "", SAMPLES, who)
    yield Figure("CPUs that it may use", member.usable_cpus, "", SAMPLES, who)
    reads = stack.reads
    if reads is None or not reads.calls_per_s:
        return
    yield Figure("reads", reads.calls_per_s, "a second", STACKS, who)
    yield Figure("bytes a read", reads.asked_bytes_per_s / reads.calls_per_s, "B", STACKS, who)
    rate = reads.asked_bytes_per_s / 1e6
    yield Figure("read", rate, "MB/s", STACKS, who)
    if member.steps_per_s:
        yield Figure("read", rate / member.steps_per_s, "MB a step", STACKS, who)
        # In the time that is left to a step without waiting.
        needed = rate / (1 - min(share, 0.99))
        yield Figure("needed to train all the time", needed, "MB/s", STACKS, who)
    if reads.file_systems:
        yield Figure("files are on", ", ".join(reads.file_systems[:4]), "", STACKS, who)


_PACK_DOES = (
    "pack the files into a few large ones (tar shards, Parquet, TFRecord) that are read in one go, "
    "and let loader processes read them"
)


def _loader_code(loaders: int) -> str:
    return (
        "loader = torch.utils.data.DataLoader(\n"
        "    dataset, batch_size,\n"
        f"    num_workers={loaders},\n"
        "    prefetch_factor=4, persistent_workers=True,\n"
        ")\n"
    )


def _tf_code(cpus: int) -> str:
    return (
        f"dataset = dataset.map(decode, num_parallel_calls={cpus})  # or tf.data.AUTOTUNE\n"
        "dataset = dataset.batch(batch_size).prefetch(tf.data.AUTOTUNE)\n"
    )
