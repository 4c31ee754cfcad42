"""Kernels that order memory by locks, flags, queues and grid barriers; half of them have exactly one defect.

Every scheme is written with each mechanism: once correctly, and once with a fault, taken in turn from those that the
scheme admits. Kernels of other forms are in ``order.toml``. Each label follows from a rule of the PTX memory model (PTX
ISA, "Memory Consistency Model") or of the CUDA C++ programming guide; labels were written before the first run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.calibrated.pattern import CLEAN, RACY, Kernel, Pattern, read, variants

RULES = {
    "": "a release pattern that an acquire pattern in scope reads synchronizes (PTX, release and acquire patterns)",
    "no_release": "a relaxed store with no fence before it is no release pattern (PTX, release patterns)",
    "late_release": "a fence after the store does not release what came before it (PTX, release patterns)",
    "narrow_release": "a fence of scope cta is not morally strong with another block's (PTX, morally strong)",
    "no_acquire": "a relaxed load with no fence after it is no acquire pattern (PTX, acquire patterns)",
    "narrow_acquire": "a fence of scope cta is not morally strong with another block's (PTX, morally strong)",
    "block_scope": "strong operations that are not in one another's scope race (PTX, morally strong; data races)",
    "plain_store": "a weak store to what another thread polls is a data race (PTX, data races)",
    "early_store": "the flag is stored before the data: the store is no release of it (PTX, release patterns)",
    "barrier": "bar.sync orders the threads of its block only (PTX, barriers)",
    "votes": "shuffles, votes, match and reduce imply no memory barrier (guide, warp functions)",
    "syncwarp": "orders memory among the threads of its mask (guide, __syncwarp)",
    "cumulative": "what a thread has acquired is released along with its own (PTX, causality order is transitive)",
    "no_wait": "the data are read without a wait for the writer (PTX, data races)",
    "never": "what is polled is never stored (guide, threads are guaranteed no progress without it)",
    "packed": "value and status are one word: nothing else is to be ordered (PTX, single-copy atomicity)",
    "arrive": "bar.arrive and mbarrier.arrive release, only a wait acquires (PTX, bar and mbarrier)",
    "tested": "a compare-and-swap fails unless the word holds what was read (guide, the atomic addition of doubles)",
    "untested": "a weak read of what another thread updates is a data race (PTX, data races)",
    "atomic": "read-modify-writes of one word, all in scope, do not race (PTX, atomicity)",
}
"""The rule by which a kernel is correct or defective, by fault or mechanism."""

SINGLES = Path(__file__).with_name("order.toml")
LIBRARY = "#include <cuda/atomic>\n"
RELEASE_FAULTS = ("no_release", "late_release", "narrow_release")
ACQUIRE_FAULTS = ("no_acquire", "narrow_acquire")
FAULTS = (*RELEASE_FAULTS, *ACQUIRE_FAULTS, "block_scope")


@dataclass(frozen=True, slots=True)
class Mechanism:
    """Code templates to publish, wait for and update a word, and the faults that it can have.

    A fence is on a separate line, so that a fault changes one line.
    """

    name: str
    store: str
    load: str
    add: str
    release: str
    acquire: str
    faults: tuple[str, ...] = FAULTS

    def _texts(self, fault: str) -> tuple[str, str, str, str, str]:
        texts = [self.store, self.load, self.add, self.release, self.acquire]
        if fault == "block_scope":
            narrow = {
                "atomicExch(": "atomicExch_block(",
                "atomicAdd(": "atomicAdd_block(",
                "scope_device": "scope_block",
                ".gpu": ".cta",
            }
            for wide, block in narrow.items():
                texts = [text.replace(wide, block) for text in texts]
        return tuple(texts)  # type: ignore[return-value]

    def fence_and_order(self, fault: str) -> tuple[str, str]:
        """The fence and the order of a release."""
        if not self.release:
            return "", "relaxed" if fault == "no_release" else "release"
        fence = self._texts(fault)[3]
        if fault == "narrow_release":
            fence = _narrow(fence)
        return "" if fault in ("no_release", "late_release") else fence, "relaxed"

    def publish(self, flag: str, value: str, fault: str = "") -> str:
        """Code that stores ``value`` in the word ``flag`` and releases what came before."""
        fence, order = self.fence_and_order(fault)
        store = self._texts(fault)[0]
        if fault == "narrow_release" and not self.release:
            store = _narrow(store)
        late = self.release if fault == "late_release" else ""
        return " ".join((fence, _filled(store, flag, value, order), late)).strip()

    def wait(self, flag: str, value: str, fault: str = "") -> str:
        """Code that polls the word until it is at least ``value``, and acquires what was released with it."""
        load = self._texts(fault)[1]
        fence = "" if fault == "no_acquire" else self._texts(fault)[4]
        if fault == "narrow_acquire":
            load, fence = (load, _narrow(fence)) if fence else (_narrow(load), fence)
        order = "relaxed" if self.acquire or fault == "no_acquire" else "acquire"
        return f"while ({_filled(load, flag, value, order)} < {value}) {{ }} {fence}".strip()

    def count(self, word: str, value: str, fault: str = "") -> str:
        """An expression that adds to the word; release and acquire if there are no fences."""
        return _filled(
            self._texts(fault)[2], word, value, "relaxed" if self.release or fault == "no_release" else "acq_rel"
        )


def _filled(text: str, flag: str, value: str, order: str) -> str:
    return text.replace("@F", flag).replace("@V", value).replace("@O", order)


def _narrow(text: str) -> str:
    return (
        text.replace("__threadfence()", "__threadfence_block()")
        .replace("scope_device", "scope_block")
        .replace(".gpu", ".cta")
    )


_REF = "cuda::atomic_ref<int, cuda::thread_scope_device>(*(@F))"
_FENCE = "cuda::atomic_thread_fence(cuda::memory_order_@@, cuda::thread_scope_device);"
_NO_LATE = tuple(fault for fault in FAULTS if fault != "late_release")

MECHANISMS = (
    Mechanism(
        "atomics",
        "atomicExch(@F, @V);",
        "atomicAdd(@F, 0)",
        "atomicAdd(@F, @V)",
        "__threadfence();",
        "__threadfence();",
    ),
    Mechanism(
        "volatile",
        "*(volatile int*)(@F) = @V;",
        "*(volatile int*)(@F)",
        "atomicAdd(@F, @V)",
        "__threadfence();",
        "__threadfence();",
        tuple(fault for fault in FAULTS if fault != "block_scope"),
    ),
    Mechanism(
        "reference",
        f"{_REF}.store(@V, cuda::memory_order_@O);",
        f"{_REF}.load(cuda::memory_order_@O)",
        f"{_REF}.fetch_add(@V, cuda::memory_order_@O)",
        "",
        "",
        _NO_LATE,
    ),
    Mechanism(
        "fences",
        f"{_REF}.store(@V, cuda::memory_order_relaxed);",
        f"{_REF}.load(cuda::memory_order_relaxed)",
        f"{_REF}.fetch_add(@V, cuda::memory_order_relaxed)",
        _FENCE.replace("@@", "release"),
        _FENCE.replace("@@", "acquire"),
    ),
    Mechanism("ptx", "store_@O(@F, @V);", "load_@O(@F)", "add_@O(@F, @V)", "", "", _NO_LATE),
    Mechanism(
        "ptx_fences",
        "store_relaxed(@F, @V);",
        "load_relaxed(@F)",
        "add_relaxed(@F, @V)",
        'asm volatile("fence.acq_rel.gpu;" ::: "memory");',
        'asm volatile("fence.acq_rel.gpu;" ::: "memory");',
    ),
)


def _ptx(scope: str) -> str:
    """Functions with inline PTX, named after the memory order; all have the same scope."""
    text = ""
    for order in ("relaxed", "release"):
        text += (
            f"__device__ void store_{order}(int* at, int value) {{\n"
            f'    asm volatile("st.{order}.{scope}.global.s32 [%0], %1;" ::"l"(at), "r"(value) : "memory");\n}}\n'
        )
    for order in ("relaxed", "acquire"):
        text += (
            f"__device__ int load_{order}(int* at) {{\n    int value;\n"
            f'    asm volatile("ld.{order}.{scope}.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");\n'
            "    return value;\n}\n"
        )
    for order in ("relaxed", "acq_rel"):
        text += (
            f"__device__ int add_{order}(int* at, int value) {{\n    int old;\n"
            f'    asm volatile("atom.{order}.{scope}.global.add.s32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : '
            '"memory");\n    return old;\n}\n'
        )
    return text


def _head(mechanism: Mechanism, fault: str) -> str:
    if not mechanism.name.startswith("ptx"):
        return LIBRARY
    text = _ptx("cta" if fault == "block_scope" else "gpu")
    if not mechanism.release and fault in ("narrow_release", "narrow_acquire"):
        order = "release" if fault == "narrow_release" else "acquire"
        text = text.replace(f".{order}.gpu", f".{order}.cta")
    return text


# ---- the schemes: `out` has 1024 zeros, `in` counts from 0; words to poll begin at out[900] ----
Scheme = Callable[[Mechanism, str], str]


def _pass(by: Mechanism, fault: str) -> str:
    """Each thread of a block passes one value to the same thread of the other block."""
    return (
        f"if (blockIdx.x == 0) {{ out[t] = in[t] + 1; {by.publish('out + 900 + t', '1', fault)} }}\n"
        f"    else {{ {by.wait('out + 900 + t', '1', fault)} out[512 + t] = out[t]; }}"
    )


def _bulk(by: Mechanism, fault: str) -> str:
    """A block writes, one of its threads publishes for all, and one thread of the other block waits for all."""
    return (
        "if (blockIdx.x == 0) { out[t] = in[t] + 1; __syncthreads(); "
        f"if (t == 0) {{ {by.publish('out + 900', '1', fault)} }} }}\n"
        f"    else {{ if (t == 0) {{ {by.wait('out + 900', '1', fault)} }} __syncthreads(); "
        "out[512 + t] = out[63 - t]; }"
    )


def _later_block(by: Mechanism, fault: str) -> str:
    """The block that begins first waits for the one that begins last."""
    return (
        f"if (blockIdx.x == 3) {{ out[t] = in[t] + 1; {by.publish('out + 900 + t', '1', fault)} }}\n"
        f"    if (blockIdx.x == 0) {{ {by.wait('out + 900 + t', '1', fault)} out[512 + t] = out[t]; }}"
    )


def _warps(by: Mechanism, fault: str) -> str:
    """One warp passes shared memory to the other warp of its block; the flag is in global memory."""
    return (
        "__shared__ int s[32]; "
        f"if (t < 32) {{ s[t] = in[i]; {by.publish('out + 900 + 32 * blockIdx.x + t', '1', fault)} }}\n"
        f"    else {{ {by.wait('out + 868 + 32 * blockIdx.x + t', '1', fault)} out[i] = s[t - 32]; }}"
    )


def _twice(by: Mechanism, fault: str) -> str:
    """Two publications through one flag; the fault is in the second."""
    return (
        f"if (blockIdx.x == 0) {{ out[t] = in[t] + 1; {by.publish('out + 900 + t', '1')} out[64 + t] = in[t] + 2; "
        f"{by.publish('out + 900 + t', '2', fault)} }}\n"
        f"    else {{ {by.wait('out + 900 + t', '1')} out[512 + t] = out[t]; "
        f"{by.wait('out + 900 + t', '2', fault)} out[640 + t] = out[64 + t]; }}"
    )


def _relay(by: Mechanism, fault: str) -> str:
    """The block in the middle passes on what it received; the fault is in that block.

    With fences that both release and acquire, its other fence would compensate: then the fault is in the first block.
    """
    release, acquire = (fault, "") if fault in RELEASE_FAULTS else ("", fault)
    first, release = (release, "") if by.acquire and by.name != "fences" else ("", release)
    return (
        f"if (blockIdx.x == 0) {{ out[t] = in[t] + 1; {by.publish('out + 768 + t', '1', first)} }}\n"
        f"    if (blockIdx.x == 1) {{ {by.wait('out + 768 + t', '1', acquire)} "
        f"{by.publish('out + 900 + t', '1', release)} }}\n"
        f"    if (blockIdx.x == 2) {{ {by.wait('out + 900 + t', '1')} out[512 + t] = out[t]; }}"
    )


def _lock(by: Mechanism, fault: str) -> str:
    """A spin lock that every 16th thread of four blocks takes; it protects one counter."""
    taken = by.wait("@L", "0", fault).split("{ }", 1)[1]
    take = "while (atomicCAS(out + 900, 0, 1) != 0) { }"
    if not by.acquire:
        order = "relaxed" if fault == "no_acquire" else "acquire"
        take = f"while (take_{order}(out + 900) != 0) {{ }}"
    return f"if (t % 16 == 0) {{ {take} {taken} out[0] += in[i]; {by.publish('out + 900', '0', fault)} }}"


def _ticket(by: Mechanism, fault: str) -> str:
    """A ticket lock: the previous holder publishes the next ticket."""
    return (
        "if (t % 16 == 0) { const int mine = atomicAdd(out + 900, 1); "
        f"{by.wait('out + 901', 'mine', fault)} out[0] += in[i]; {by.publish('out + 901', 'mine + 1', fault)} }}"
    )


def _last(by: Mechanism, fault: str) -> str:
    """Each block stores a sum, the last one to count adds them (programming guide, memory fence functions)."""
    fence = by.fence_and_order(fault)[0]
    late = by.release if fault == "late_release" else ""
    return (
        "__shared__ int last; if (t == 0) { out[blockIdx.x] = in[i]; "
        f"{fence} last = {by.count('out + 900', '1', fault)} == 3; {late} }} __syncthreads(); "
        "if (last && t == 0) { int sum = 0; for (int b = 0; b < 4; ++b) { sum += out[b]; } out[512] = sum; }"
    )


def _owners(by: Mechanism, fault: str) -> str:
    """Each thread stores its part; the last one to count reads all of them, without a barrier."""
    before, after = by.fence_and_order(fault)[0], "" if fault == "no_acquire" else by.acquire
    if fault == "narrow_acquire":
        after = _narrow(after)
    late = by.release if fault == "late_release" else ""
    return (
        f"out[i] = in[i]; {before} const int before = {by.count('out + 900', '1', fault)}; {late} "
        f"if (before == 255) {{ {after} int sum = 0; for (int k = 0; k < 256; ++k) {{ sum += out[k]; }} "
        "out[512] = sum; }"
    )


def _look_back(by: Mechanism, fault: str) -> str:
    """A scan over blocks: each waits for the previous block's sum; value and status are two words."""
    return (
        "if (t == 0) { int sum = in[i]; if (blockIdx.x) { "
        f"{by.wait('out + 900 + blockIdx.x - 1', '1', fault)} sum += out[blockIdx.x - 1]; }} out[blockIdx.x] = sum; "
        f"{by.publish('out + 900 + blockIdx.x', '1', fault)} }}"
    )


def _look_back_far(by: Mechanism, fault: str) -> str:
    """A decoupled look-back: a block publishes its aggregate at once and the whole prefix later."""
    return (
        "if (t == 0) { const int own = in[i]; out[blockIdx.x] = own; "
        f"{by.publish('out + 900 + blockIdx.x', '1', fault)} int sum = own; "
        "for (int b = (int)blockIdx.x - 1; b >= 0; --b) { "
        f"{by.wait('out + 900 + b', '1', fault)} sum += out[b]; }} out[64 + blockIdx.x] = sum; "
        f"{by.publish('out + 900 + blockIdx.x', '2')} }}"
    )


def _ring(by: Mechanism, fault: str) -> str:
    """A ring of two slots between two blocks, through which twelve values pass."""
    return (
        "if (t == 0 && blockIdx.x == 0) { for (int k = 0; k < 12; ++k) { "
        f"{by.wait('out + 901', 'k - 1', fault if fault in ACQUIRE_FAULTS else '')} out[k % 2] = in[k]; "
        f"{by.publish('out + 900', 'k + 1', '' if fault in ACQUIRE_FAULTS else fault)} }} }}\n"
        "    if (t == 0 && blockIdx.x == 1) { for (int k = 0; k < 12; ++k) { "
        f"{by.wait('out + 900', 'k + 1', fault if fault == 'block_scope' else '')} out[512 + k] = out[k % 2]; "
        f"{by.publish('out + 901', 'k + 1', fault if fault == 'block_scope' else '')} }} }}"
    )


def _queue(by: Mechanism, fault: str) -> str:
    """Producers draw a slot and set its flag when it is filled; consumers draw a slot and wait for its flag."""
    return (
        "if (t < 16 && blockIdx.x < 2) { const int at = atomicAdd(out + 900, 1); out[at] = in[i]; "
        f"{by.publish('out + 950 + at', '1', fault)} }}\n"
        "    if (t < 16 && blockIdx.x > 1) { const int at = atomicAdd(out + 901, 1); "
        f"{by.wait('out + 950 + at', '1', fault)} out[512 + at] = out[at]; }}"
    )


def _grid_barrier(by: Mechanism, fault: str) -> str:
    """All blocks count themselves and wait for the others, twice."""
    fence = by.fence_and_order(fault)[0]
    late = by.release if fault == "late_release" else ""
    return (
        "int sum = 0; for (int k = 1; k < 3; ++k) { out[256 * (k - 1) + i] = in[i] + k; __syncthreads(); "
        f"if (t == 0) {{ {fence} {by.count('out + 900', '1', fault)}; {late} "
        f"{by.wait('out + 900', '4 * k', fault if fault == 'block_scope' else '')} }} "
        "__syncthreads(); sum += out[256 * (k - 1) + (i + 64) % 256]; } out[512 + i] = sum;"
    )


def _in_turn(by: Mechanism, fault: str) -> str:
    """Blocks add their parts to one array in the order of their numbers, as split-K does."""
    return (
        f"if (t == 0) {{ {by.wait('out + 900', '(int)blockIdx.x', '' if fault != 'block_scope' else fault)} }} "
        "__syncthreads(); out[t] += in[i]; __syncthreads(); "
        f"if (t == 0) {{ {by.publish('out + 900', '(int)blockIdx.x + 1', fault)} }}"
    )


def _hand_back(by: Mechanism, fault: str) -> str:
    """The other block changes a value and passes it back; the fault is on the way back."""
    return (
        f"if (blockIdx.x == 0) {{ out[t] = in[t]; {by.publish('out + 900 + t', '1')} "
        f"{by.wait('out + 768 + t', '1', fault)} out[512 + t] = out[t]; }}\n"
        f"    else {{ {by.wait('out + 900 + t', '1')} out[t] += 1; {by.publish('out + 768 + t', '1', fault)} }}"
    )


def _once(by: Mechanism, fault: str) -> str:
    """The first block computes a table, all others wait for it."""
    return (
        "if (t == 0) { if (atomicCAS(out + 900, 0, 1) == 0) { for (int k = 0; k < 8; ++k) { out[k] = in[k] + 1; } "
        f"{by.publish('out + 901', '1', fault)} }} else {{ {by.wait('out + 901', '1', fault)} }} "
        "out[512 + blockIdx.x] = out[blockIdx.x]; }"
    )


_WITH_BARRIER = (*RELEASE_FAULTS, "block_scope")
"""Faults of schemes with a barrier after the wait, which replaces an acquire fence, as in the guide's last block."""
_IN_BLOCK = ("no_release", "no_acquire", "late_release")
SCHEMES: tuple[tuple[Scheme, int, Sequence[str]], ...] = (
    (_pass, 2, FAULTS),
    (_bulk, 2, _WITH_BARRIER),
    (_later_block, 4, FAULTS),
    (_warps, 2, _IN_BLOCK),
    (_twice, 2, (*RELEASE_FAULTS, *ACQUIRE_FAULTS)),
    (_relay, 3, ("no_acquire", "no_release", "narrow_acquire", "narrow_release", "late_release")),
    (_lock, 4, ("no_release", "no_acquire", "narrow_release", "late_release", "narrow_acquire")),
    (_ticket, 4, FAULTS),
    (_last, 4, _WITH_BARRIER),
    (_owners, 4, ("no_release", "no_acquire", "narrow_acquire", "block_scope", "late_release")),
    (_look_back, 4, FAULTS),
    (_look_back_far, 4, (*RELEASE_FAULTS, *ACQUIRE_FAULTS)),
    (_ring, 2, ("no_acquire", "no_release", "narrow_acquire", "narrow_release", "late_release")),
    (_queue, 4, FAULTS),
    (_grid_barrier, 4, _WITH_BARRIER),
    (_in_turn, 4, _WITH_BARRIER),
    (_hand_back, 2, (*ACQUIRE_FAULTS, *RELEASE_FAULTS)),
    (_once, 4, FAULTS),
)
"""Each scheme, its number of blocks, and the faults that make it defective."""

_TAKE = "".join(
    f"__device__ int take_{order}(int* lock) {{\n    int free = 0;\n"
    "    cuda::atomic_ref<int, cuda::thread_scope_device>(*lock)"
    f".compare_exchange_strong(free, 1, cuda::memory_order_{order});\n    return free;\n}}\n"
    for order in ("relaxed", "acquire")
)


def _of_schemes() -> Iterator[Pattern]:
    for number, (scheme, grid, admitted) in enumerate(SCHEMES):
        for at, by in enumerate(MECHANISMS):
            possible = [fault for fault in admitted if fault in by.faults]
            if scheme in (_owners, _last, _grid_barrier) and not by.acquire:
                possible = [fault for fault in possible if fault in ("no_release", "block_scope")]
            if scheme is _relay and by.acquire and by.name != "fences":
                possible = [fault for fault in possible if fault in RELEASE_FAULTS]
            fault = possible[(number + at) % len(possible)]
            for label, chosen in ((CLEAN, ""), (RACY, fault)):
                head = _head(by, chosen)
                if scheme is _lock and not by.acquire:
                    head = (head if LIBRARY in head else LIBRARY + head) + _TAKE
                yield Pattern(
                    f"{scheme.__name__[1:]}_by_{by.name}",
                    scheme(by, chosen).replace("$", "$$"),
                    ((chosen or "right", label, {"why": RULES[chosen]}),),
                    ("int",),
                    1024,
                    head,
                    grid=grid,
                )


def kernels() -> tuple[Kernel, ...]:
    """All kernels of this suite, by name."""
    singles = read(SINGLES, RULES, types=("int",), n=1024)
    made = [kernel for pattern in (*_of_schemes(), *singles) for kernel in variants(pattern)]
    return tuple(sorted(made, key=lambda kernel: kernel.name))
