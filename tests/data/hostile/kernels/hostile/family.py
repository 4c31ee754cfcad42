"""Copies of an array, hostile but for the first and the last: some on a GPU, some in the emulator."""

from pathlib import Path

from peakgate.case import Buffer, Case, Family, Launch, Role, Scalar, Scale, Stage, Tier, Work

HERE = Path(__file__).parent
THREADS = 32
ELEMENTS = {Scale.BENCH: 1 << 20, Scale.SMALL: 1024}

EVERYWHERE = ("a_copy", "counts", "keeps", "spoils", "z_copy")
ON_A_GPU = ("claims", "endless", "huge", "illegal", "traps")
IN_THE_EMULATOR = ("aborts", "exits", "recurses", "sleeps", "traps")

STAGES = {name: Stage(name, "", HERE / f"{name}.cu") for name in sorted({*EVERYWHERE, *ON_A_GPU, *IN_THE_EMULATOR})}


def same(xp, inputs):
    return [inputs[0]]


def without_end(xp, inputs):
    return inputs if inputs[0].size < THREADS * THREADS else [xp.ones(1 << 42)]


def case(name, elements):
    buffers = (Buffer(Role.OUT, (elements,)), Buffer(Role.IN, (elements,)), Scalar(elements))
    return Case(
        family="hostile",
        stage=STAGES[name],
        launch=Launch((-(-elements // THREADS), 1, 1), (THREADS, 1, 1)),
        arguments=buffers,
        work=Work(8 * elements * (10_000 if name == "claims" else 1)),
        reference=without_end if name == "huge" else same,
        size=str(elements),
        tier=Tier.GATE,
    )


def cases(scale):
    there = ON_A_GPU if scale is Scale.BENCH else IN_THE_EMULATOR
    yield from (case(name, ELEMENTS[scale]) for name in sorted((*EVERYWHERE, *there)))


def probes(of):
    yield case(of.stage.name, 33)


FAMILY = Family("hostile", "synthetic", tuple(STAGES.values()), cases, probes)
