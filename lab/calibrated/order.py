"""Kernels that order memory by locks, flags, queues and grid barriers, half of them wrong in exactly one way.

Every scheme is written with each mechanism: once rightly, and once with a fault, taken in turn from those that the
scheme admits. A few kernels more have a fault of their own. A label rests on its rule, of the PTX memory model (PTX
ISA, "Memory Consistency Model") or of the CUDA C++ programming guide; labels were written before the first run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lab.calibrated.pattern import CLEAN, GROUPS, RACY, STUCK, Kernel, Pattern, variants

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
"""Why a kernel is right or wrong."""

LIBRARY = "#include <cuda/atomic>\n"
RELEASE_FAULTS = ("no_release", "late_release", "narrow_release")
ACQUIRE_FAULTS = ("no_acquire", "narrow_acquire")
FAULTS = (*RELEASE_FAULTS, *ACQUIRE_FAULTS, "block_scope")


@dataclass(frozen=True, slots=True)
class Mechanism:
    """How a word is stored to publish, waited for, and updated; faults that it can have.

    A fence stands on a line of its own, so that a fault is a change of one line.
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
        """Store ``value`` to the word ``flag`` so that who reads it sees what came before."""
        fence, order = self.fence_and_order(fault)
        store = self._texts(fault)[0]
        if fault == "narrow_release" and not self.release:
            store = _narrow(store)
        late = self.release if fault == "late_release" else ""
        return " ".join((fence, _filled(store, flag, value, order), late)).strip()

    def wait(self, flag: str, value: str, fault: str = "") -> str:
        """Poll the word until it is at least ``value``, and acquire what was released with it."""
        load = self._texts(fault)[1]
        fence = "" if fault == "no_acquire" else self._texts(fault)[4]
        if fault == "narrow_acquire":
            load, fence = (load, _narrow(fence)) if fence else (_narrow(load), fence)
        order = "relaxed" if self.acquire or fault == "no_acquire" else "acquire"
        return f"while ({_filled(load, flag, value, order)} < {value}) {{ }} {fence}".strip()

    def count(self, word: str, value: str, fault: str = "") -> str:
        """Add to the word, as release and acquire where no fences are: an expression."""
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
    """PTX in functions, whose names say the order; the scope is the same in all."""
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
    """Each thread of a block hands one value to its fellow of the other."""
    return (
        f"if (blockIdx.x == 0) {{ out[t] = in[t] + 1; {by.publish('out + 900 + t', '1', fault)} }}\n"
        f"    else {{ {by.wait('out + 900 + t', '1', fault)} out[512 + t] = out[t]; }}"
    )


def _bulk(by: Mechanism, fault: str) -> str:
    """A block writes, one thread of it publishes for all, one thread of the other waits for all."""
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
    """One warp hands shared memory to the other of its block; the flag is in global memory."""
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
    """The block in the middle passes on what it received; the fault is in what it does.

    A fence in both directions would do for the other one that it has: there the fault is in the first block.
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
    """A ticket lock: whose turn it is, is published by the one before."""
    return (
        "if (t % 16 == 0) { const int mine = atomicAdd(out + 900, 1); "
        f"{by.wait('out + 901', 'mine', fault)} out[0] += in[i]; {by.publish('out + 901', 'mine + 1', fault)} }}"
    )


def _last(by: Mechanism, fault: str) -> str:
    """Each block leaves a sum, the one that counts last adds them (programming guide, memory fence functions)."""
    fence = by.fence_and_order(fault)[0]
    late = by.release if fault == "late_release" else ""
    return (
        "__shared__ int last; if (t == 0) { out[blockIdx.x] = in[i]; "
        f"{fence} last = {by.count('out + 900', '1', fault)} == 3; {late} }} __syncthreads(); "
        "if (last && t == 0) { int sum = 0; for (int b = 0; b < 4; ++b) { sum += out[b]; } out[512] = sum; }"
    )


def _owners(by: Mechanism, fault: str) -> str:
    """Each thread gives up its part; the one that counts last reads all of them, with no barrier."""
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
    """A scan over blocks: each waits for the sum of the one before; value and status are two words."""
    return (
        "if (t == 0) { int sum = in[i]; if (blockIdx.x) { "
        f"{by.wait('out + 900 + blockIdx.x - 1', '1', fault)} sum += out[blockIdx.x - 1]; }} out[blockIdx.x] = sum; "
        f"{by.publish('out + 900 + blockIdx.x', '1', fault)} }}"
    )


def _look_back_far(by: Mechanism, fault: str) -> str:
    """A decoupled look-back: an aggregate at once, the whole prefix later; who comes after walks back."""
    return (
        "if (t == 0) { const int own = in[i]; out[blockIdx.x] = own; "
        f"{by.publish('out + 900 + blockIdx.x', '1', fault)} int sum = own; "
        "for (int b = (int)blockIdx.x - 1; b >= 0; --b) { "
        f"{by.wait('out + 900 + b', '1', fault)} sum += out[b]; }} out[64 + blockIdx.x] = sum; "
        f"{by.publish('out + 900 + blockIdx.x', '2')} }}"
    )


def _ring(by: Mechanism, fault: str) -> str:
    """A ring of two places between two blocks, twelve values through it."""
    return (
        "if (t == 0 && blockIdx.x == 0) { for (int k = 0; k < 12; ++k) { "
        f"{by.wait('out + 901', 'k - 1', fault if fault in ACQUIRE_FAULTS else '')} out[k % 2] = in[k]; "
        f"{by.publish('out + 900', 'k + 1', '' if fault in ACQUIRE_FAULTS else fault)} }} }}\n"
        "    if (t == 0 && blockIdx.x == 1) { for (int k = 0; k < 12; ++k) { "
        f"{by.wait('out + 900', 'k + 1', fault if fault == 'block_scope' else '')} out[512 + k] = out[k % 2]; "
        f"{by.publish('out + 901', 'k + 1', fault if fault == 'block_scope' else '')} }} }}"
    )


def _queue(by: Mechanism, fault: str) -> str:
    """Producers draw a place and mark it when it is filled; consumers draw one and wait for the mark."""
    return (
        "if (t < 16 && blockIdx.x < 2) { const int at = atomicAdd(out + 900, 1); out[at] = in[i]; "
        f"{by.publish('out + 950 + at', '1', fault)} }}\n"
        "    if (t < 16 && blockIdx.x > 1) { const int at = atomicAdd(out + 901, 1); "
        f"{by.wait('out + 950 + at', '1', fault)} out[512 + at] = out[at]; }}"
    )


def _grid_barrier(by: Mechanism, fault: str) -> str:
    """All blocks count themselves and wait for the rest, twice."""
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
    """A value goes to the other block, which changes it and hands it back; the fault is on the way back."""
    return (
        f"if (blockIdx.x == 0) {{ out[t] = in[t]; {by.publish('out + 900 + t', '1')} "
        f"{by.wait('out + 768 + t', '1', fault)} out[512 + t] = out[t]; }}\n"
        f"    else {{ {by.wait('out + 900 + t', '1')} out[t] += 1; {by.publish('out + 768 + t', '1', fault)} }}"
    )


def _once(by: Mechanism, fault: str) -> str:
    """Whoever comes first makes a table, all others wait until it is made."""
    return (
        "if (t == 0) { if (atomicCAS(out + 900, 0, 1) == 0) { for (int k = 0; k < 8; ++k) { out[k] = in[k] + 1; } "
        f"{by.publish('out + 901', '1', fault)} }} else {{ {by.wait('out + 901', '1', fault)} }} "
        "out[512 + blockIdx.x] = out[blockIdx.x]; }"
    )


_WITH_BARRIER = (*RELEASE_FAULTS, "block_scope")
"""A barrier after the wait would do for the fence that a fault leaves out: the guide's last block relies on it."""
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
"""Each scheme, in how many blocks it runs, and the faults that make it wrong."""

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
                    may_hang=True,
                    grid=grid,
                )


def _single(
    name: str, body: str, *found: tuple[str, str, str, str], head: str = "", grid: int = 2, cooperative: bool = False
) -> Pattern:
    """A pattern of its own; each variant is its name, label, rule and what fills the hole."""
    made = tuple((variant, label, {"A": hole, "why": RULES[rule]}) for variant, label, rule, hole in found)
    return Pattern(name, body, made, ("int",), 1024, head, cooperative=cooperative, may_hang=True, grid=grid)


_LAST = (
    "__shared__ int last; $A if (t == 0) { last = %s(out + 900, 1) == 3; } __syncthreads(); "
    "if (last) { out[512 + t] = out[t] + out[64 + t] + out[128 + t] + out[192 + t]; }"
)
_NAMED = 'asm volatile("bar.%s %d, 64;" ::: "memory");'
_BARRIER = "#include <cuda/barrier>\nusing Barrier = cuda::barrier<cuda::thread_scope_block>;\n"
_MADE = "__shared__ Barrier b; __shared__ int s[64]; if (t == 0) { init(&b, 64); } __syncthreads(); "

SINGLES = (
    _single(
        "warp_exchange",
        "__shared__ int s[64]; s[t] = in[i]; $A out[i] = s[t ^ 1];",
        ("syncwarp", CLEAN, "syncwarp", "__syncwarp();"),
        ("pairs", CLEAN, "syncwarp", "__syncwarp(3u << (t % 32 / 2 * 2));"),
        ("shuffle", RACY, "votes", "__shfl_sync(~0u, t, 0);"),
        ("ballot", RACY, "votes", "__ballot_sync(~0u, t);"),
        ("any", RACY, "votes", "__any_sync(~0u, t);"),
        ("match", RACY, "votes", "__match_any_sync(~0u, t);"),
        ("reduce", RACY, "votes", "__reduce_add_sync(~0u, t);"),
        ("fence", RACY, "votes", "__threadfence_block();"),
        ("shuffle_and_syncwarp", CLEAN, "syncwarp", "__shfl_sync(~0u, t, 0); __syncwarp();"),
        ("barrier", CLEAN, "barrier", "__syncthreads();"),
    ),
    _single(
        "last_block",
        "out[i] = in[i]; __syncthreads(); " + _LAST % "atomicAdd",
        ("fence", CLEAN, "", "if (t == 0) __threadfence();"),
        ("all_fence", CLEAN, "", "__threadfence();"),
        ("no_fence", RACY, "no_release", ";"),
        ("block_fence", RACY, "narrow_release", "__threadfence_block();"),
        ("other_thread", RACY, "no_release", "if (t == 1) __threadfence();"),
        grid=4,
    ),
    _single(
        "last_block_early",
        "out[i] = in[i]; $A __syncthreads(); " + (_LAST % "atomicAdd").replace("$A ", ""),
        ("first_fences", RACY, "no_release", "if (t == 0) __threadfence();"),
        ("other_fences", RACY, "no_release", "if (t == 9) __threadfence();"),
        grid=4,
    ),
    _single(
        "last_block_scope",
        "out[i] = in[i]; __syncthreads(); if (t == 0) __threadfence(); $A",
        ("device", CLEAN, "", (_LAST % "atomicAdd").replace("$A ", "")),
        ("system", CLEAN, "", (_LAST % "atomicAdd_system").replace("$A ", "")),
        ("block", RACY, "block_scope", (_LAST % "atomicAdd_block").replace("$A ", "")),
        grid=4,
    ),
    _single(
        "counter",
        "$A",
        ("device", CLEAN, "atomic", "atomicAdd(out, 1);"),
        ("block_in_block", CLEAN, "atomic", "atomicAdd_block(out + blockIdx.x, 1);"),
        ("block", RACY, "block_scope", "atomicAdd_block(out, 1);"),
        ("one_block", RACY, "block_scope", "if (blockIdx.x) atomicAdd(out, 1); else atomicAdd_block(out, 1);"),
        ("plain", RACY, "plain_store", "if (i == 5) out[0] = 1; else atomicAdd(out, 1);"),
        ("read", RACY, "no_wait", "atomicAdd(out, 1); if (i == 5) out[512] = out[0];"),
    ),
    _single(
        "packed_look_back",
        "volatile unsigned long long* state = (volatile unsigned long long*)(out + 800); "
        "if (t == 0) { unsigned long long sum = in[i]; if (blockIdx.x) { unsigned long long before; "
        "while (((before = state[blockIdx.x - 1]) >> 32) == 0) { } sum += before & 0xffffffff; $A } "
        "state[blockIdx.x] = 1ull << 32 | sum; out[blockIdx.x] = (int)sum; }",
        ("right", CLEAN, "packed", ";"),
        ("reads_beside", RACY, "no_release", "out[512 + blockIdx.x] = out[blockIdx.x - 1];"),
        grid=4,
    ),
    _single(
        "stop_flag",
        "volatile int* stop = out + 900; for (int k = 0; k < 4; ++k) { if (*stop) break; $A }",
        ("volatile", CLEAN, "packed", "if (in[i] == 70) *stop = 1;"),
        ("atomic", CLEAN, "atomic", "if (in[i] == 70) atomicExch(out + 900, 1);"),
        ("plain", RACY, "plain_store", "if (in[i] == 70) out[900] = 1;"),
    ),
    _single(
        "lock_of_block",
        "__shared__ int lock, sum; if (t == 0) { lock = 0; sum = 0; } __syncthreads(); "
        "if (t % 8 == 0) { while (atomicCAS(&lock, 0, 1)) { } $A } __syncthreads(); out[i] = sum;",
        ("fences", CLEAN, "", "__threadfence_block(); sum += in[i]; __threadfence_block(); atomicExch(&lock, 0);"),
        ("wide_fences", CLEAN, "", "__threadfence(); sum += in[i]; __threadfence(); atomicExch(&lock, 0);"),
        (
            "block_atomic",
            CLEAN,
            "",
            "__threadfence_block(); sum += in[i]; __threadfence_block(); atomicExch_block(&lock, 0);",
        ),
        (
            "volatile",
            CLEAN,
            "",
            "__threadfence_block(); sum += in[i]; __threadfence_block(); *(volatile int*)&lock = 0;",
        ),
        ("no_release", RACY, "no_release", "__threadfence_block(); sum += in[i]; atomicExch(&lock, 0);"),
        ("no_acquire", RACY, "no_acquire", "sum += in[i]; __threadfence_block(); atomicExch(&lock, 0);"),
        ("plain_unlock", RACY, "plain_store", "__threadfence_block(); sum += in[i]; __threadfence_block(); lock = 0;"),
        (
            "after",
            RACY,
            "early_store",
            "__threadfence_block(); __threadfence_block(); atomicExch(&lock, 0); sum += in[i];",
        ),
    ),
    _single(
        "two_locks",
        "if (t % 16 == 0) { int* lock = out + 900 $A; while (atomicCAS(lock, 0, 1)) { } __threadfence(); "
        "out[0] += in[i]; "
        "__threadfence(); atomicExch(lock, 0); }",
        ("one", CLEAN, "", ""),
        ("of_each_block", RACY, "no_wait", "+ blockIdx.x"),
    ),
    _single(
        "double_check",
        "if (t == 0) { if ($A == 0) { while (atomicCAS(out + 900, 0, 1)) { } __threadfence(); "
        "if (atomicAdd(out + 901, 0) == 0) { out[0] = in[5]; __threadfence(); atomicExch(out + 901, 1); } "
        "__threadfence(); atomicExch(out + 900, 0); } __threadfence(); out[512 + blockIdx.x] = out[0]; }",
        ("atomic", CLEAN, "", "atomicAdd(out + 901, 0)"),
        ("volatile", CLEAN, "", "*(volatile int*)(out + 901)"),
        ("plain", RACY, "plain_store", "out[901]"),
        grid=4,
    ),
    _single(
        "queue_by_tail",
        "if (blockIdx.x == 0 && t == 0) { for (int k = 0; k < 8; ++k) { $A } }\n"
        "    if (blockIdx.x == 1 && t < 8) { while (atomicAdd(out + 900, 0) <= t) { } __threadfence(); "
        "out[512 + t] = out[t]; }",
        ("filled", CLEAN, "", "out[k] = in[k]; __threadfence(); atomicAdd(out + 900, 1);"),
        ("drawn", RACY, "early_store", "int at = atomicAdd(out + 900, 1); out[at] = in[k]; __threadfence();"),
    ),
    _single(
        "ring_of_one",
        "if (t == 0 && blockIdx.x == 0) { for (int k = 0; k < 6; ++k) { while (atomicAdd(out + 900, 0) != 2 * k) { } "
        "__threadfence(); out[0] = in[k]; __threadfence(); atomicAdd(out + 900, 1); } }\n"
        "    if (t == 0 && blockIdx.x == 1) { for (int k = 0; k < 6; "
        "++k) { while (atomicAdd(out + 900, 0) != 2 * k + 1) { } "
        "__threadfence(); $A } }",
        ("right", CLEAN, "", "out[512 + k] = out[0]; __threadfence(); atomicAdd(out + 900, 1);"),
        ("frees_early", RACY, "early_store", "__threadfence(); atomicAdd(out + 900, 1); out[512 + k] = out[0];"),
    ),
    _single(
        "barrier_of_grid",
        "out[i] = in[i]; $A out[512 + i] = out[(i + 64) % 256];",
        ("grid", CLEAN, "barrier", "cg::this_grid().sync();"),
        ("block", RACY, "barrier", "__syncthreads();"),
        ("nothing", RACY, "no_wait", ";"),
        head=GROUPS,
        grid=4,
        cooperative=True,
    ),
    _single(
        "arrives_early",
        "out[i] = in[i]; $A if (t == 0) { __threadfence(); atomicAdd(out + 900, 1); "
        "while (atomicAdd(out + 900, 0) < 4) { } __threadfence(); } __syncthreads(); "
        "out[512 + i] = out[(i + 64) % 256];",
        ("barrier", CLEAN, "", "__syncthreads();"),
        ("no_barrier", RACY, "no_release", ";"),
        grid=4,
    ),
    _single(
        "waits_for",
        "out[i] = in[i]; __syncthreads(); if (t == 0) { __threadfence(); atomicAdd(out + 900, 1); "
        "while (atomicAdd(out + 900, 0) < $A) { } __threadfence(); } __syncthreads(); "
        "out[512 + i] = out[(i + 64) % 256];",
        ("all", CLEAN, "", "4"),
        ("three", RACY, "no_wait", "3"),
        ("five", STUCK, "never", "5"),
        grid=4,
    ),
    _single(
        "never_stored",
        "$A out[i] = in[i];",
        ("flag", STUCK, "never", "while (atomicAdd(out + 900, 0) == 0) { }"),
        ("volatile_flag", STUCK, "never", "while (*(volatile int*)(out + 900) == 0) { }"),
        ("one_thread", STUCK, "never", "if (i == 9) { while (atomicAdd(out + 900, 0) == 0) { } }"),
        ("lock_kept", STUCK, "never", "if (t % 32 == 0) { while (atomicCAS(out + 900, 0, 1)) { } }"),
        (
            "at_barrier",
            STUCK,
            "never",
            "if (t == 0) { while (!*(volatile int*)(out + 900)) { } } __syncthreads(); out[900] = 1;",
        ),
        ("given_up", CLEAN, "packed", "for (int k = 0; k < 50 && atomicAdd(out + 900, 0) == 0; ++k) { }"),
    ),
    _single(
        "producer_warp",
        "__shared__ int s[32]; for (int k = 0; k < 3; ++k) { if (t < 32) { $A s[t] = in[i] + k; "
        + _NAMED % ("arrive", 1)
        + " } else { "
        + _NAMED % ("sync", 1)
        + " out[i] = s[t - 32]; "
        + _NAMED % ("arrive", 2)
        + " } }",
        ("waits", CLEAN, "arrive", "if (k) { " + _NAMED % ("sync", 2) + " }"),
        ("arrives", RACY, "arrive", "if (k) { " + _NAMED % ("arrive", 2) + " }"),
    ),
    _single(
        "object",
        _MADE + "s[t] = in[i]; $A out[i] = s[63 - t];",
        ("waits", CLEAN, "arrive", "b.wait(b.arrive());"),
        ("arrives", RACY, "arrive", "auto token = b.arrive();"),
        (
            "waits_late",
            RACY,
            "arrive",
            "auto token = b.arrive(); out[512 + i] = s[63 - t]; b.wait(static_cast<decltype(token)&&>(token));",
        ),
        ("both", CLEAN, "arrive", "b.arrive_and_wait();"),
        head=_BARRIER,
    ),
    _single(
        "copied",
        _MADE + "cuda::memcpy_async(s + t, in + i, sizeof(int), b); $A out[i] = s[t];",
        ("waits", CLEAN, "arrive", "b.wait(b.arrive());"),
        ("arrives", RACY, "arrive", "auto token = b.arrive();"),
        ("nothing", RACY, "no_wait", ";"),
        head=_BARRIER,
    ),
    _single(
        "leader",
        "if (t % 32 == 0) { while (atomicCAS(out + 900, 0, 1)) { } __threadfence(); } __syncwarp(); "
        "out[t % 32] += in[i]; "
        "$A if (t % 32 == 0) { __threadfence(); atomicExch(out + 900, 0); } __syncwarp();",
        ("met", CLEAN, "syncwarp", "__syncwarp();"),
        ("not_met", RACY, "no_release", ";"),
        ("shuffle", RACY, "votes", "__shfl_sync(~0u, t, 0);"),
    ),
)

HELD_OUT = (
    _single(
        "readers_and_writer",
        "if (t == 0 && blockIdx.x == 3) { while (atomicCAS(out + 900, 0, -100)) { } __threadfence(); out[0] = in[7]; "
        "__threadfence(); atomicAdd(out + 900, 100); }\n"
        "    if (t == 0 && blockIdx.x < 3) { for (;;) { if (atomicAdd(out + 900, 1) >= 0) break; "
        "atomicAdd(out + 900, -1); } "
        "__threadfence(); out[512 + blockIdx.x] = out[0]; $A }",
        ("right", CLEAN, "", "__threadfence(); atomicAdd(out + 900, -1);"),
        ("no_release", RACY, "no_release", "atomicAdd(out + 900, -1);"),
        ("early", RACY, "early_store", "__threadfence(); atomicAdd(out + 900, -1); out[513 + blockIdx.x] = out[0];"),
        grid=4,
    ),
    _single(
        "gather_of_readers",
        "if (blockIdx.x < 3) { out[512 + i] = out[t]; __syncthreads(); if (t == 0) { $A atomicAdd(out + 900, 1); } }\n"
        "    else { if (t == 0) { while (atomicAdd(out + 900, 0) < 3) { } __threadfence(); } __syncthreads(); "
        "out[t] = in[i]; }",
        ("right", CLEAN, "", "__threadfence();"),
        ("no_release", RACY, "no_release", ";"),
        ("two_of_three", RACY, "no_release", "if (blockIdx.x != 1) __threadfence();"),
        grid=4,
    ),
    _single(
        "mcs_lock",
        "if (t == 0) { const int me = blockIdx.x + 1; const int before = atomicExch(out + 900, me); if (before) { "
        "atomicExch(out + 910 + before, me); while (atomicAdd(out + 920 + me, 0) == 0) { } } __threadfence(); "
        "out[0] += in[i]; $A int next = atomicAdd(out + 910 + me, 0); "
        "if (!next && atomicCAS(out + 900, me, 0) != me) { while (!(next = atomicAdd(out + 910 + me, 0))) { } } "
        "if (next) { atomicExch(out + 920 + next, 1); } }",
        ("right", CLEAN, "", "__threadfence();"),
        ("no_release", RACY, "no_release", ";"),
        ("block_fence", RACY, "narrow_release", "__threadfence_block();"),
        grid=4,
    ),
    _single(
        "tree_barrier",
        "out[i] = in[i]; __syncthreads(); "
        "if (t == 0) { $A if (blockIdx.x % 2) { atomicExch(out + 900 + blockIdx.x, 1); } "
        "else { while (!atomicAdd(out + 901 + blockIdx.x, 0)) { } __threadfence(); if (blockIdx.x) { "
        "atomicExch(out + 902, 1); } else { while (!atomicAdd(out + 902, 0)) { } __threadfence(); "
        "atomicExch(out + 910, 1); } } "
        "while (!atomicAdd(out + 910, 0)) { } __threadfence(); } __syncthreads(); out[512 + i] = out[255 - i];",
        ("right", CLEAN, "", "__threadfence();"),
        ("leaf_lacks_fence", RACY, "no_release", "if (blockIdx.x != 3) __threadfence();"),
        ("root_lacks_fence", CLEAN, "cumulative", "if (blockIdx.x) __threadfence();"),
        grid=4,
    ),
    _single(
        "sense_reversal",
        "int sum = 0; for (int k = 0; k < 3; ++k) { out[i] = in[i] + k; __syncthreads(); "
        "if (t == 0) { __threadfence(); "
        "volatile int* sense = out + 901; const int mine = *sense; "
        "if (atomicAdd(out + 900, 1) == 3) { out[900] = 0; $A "
        "*sense = !mine; } else { while (*sense == mine) { } } __threadfence(); } __syncthreads(); "
        "sum += out[(i + 64) % 256]; __syncthreads(); if (t == 0) { __threadfence(); atomicAdd(out + 902, 1); "
        "while (atomicAdd(out + 902, 0) < 4 * (k + 1)) { } __threadfence(); } __syncthreads(); } out[512 + i] = sum;",
        ("right", CLEAN, "", "__threadfence();"),
        ("no_release", RACY, "no_release", ";"),
        grid=4,
    ),
    _single(
        "hand_over_hand",
        "if (t % 32 == 0) { for (int k = 0; k < 3; ++k) { while (atomicCAS(out + 900 + k, 0, 1)) { } __threadfence(); "
        "if (k) { atomicExch(out + 899 + k, 0); } out[k] += in[i]; $A } atomicExch(out + 902, 0); }",
        ("right", CLEAN, "", "__threadfence();"),
        ("no_release", RACY, "no_release", ";"),
        grid=4,
    ),
    _single(
        "stack",
        "if (t < 4 && blockIdx.x == 0) { out[100 + t] = in[t] + 1; $A int top; do { top = atomicAdd(out + 900, 0); "
        "atomicExch(out + 910 + t, top); } while (atomicCAS(out + 900, top, t + 1) != top); }\n"
        "    if (t == 0 && blockIdx.x == 1) { int left = 4, top; "
        "while (left) { while ((top = atomicAdd(out + 900, 0)) == 0) { } "
        "const int next = atomicAdd(out + 909 + top, 0); if (atomicCAS(out + 900, top, next) != top) { continue; } "
        "__threadfence(); out[512 + --left] = out[99 + top]; } }",
        ("right", CLEAN, "", "__threadfence();"),
        ("no_release", RACY, "no_release", ";"),
        ("block_fence", RACY, "narrow_release", "__threadfence_block();"),
    ),
    _single(
        "two_flags",
        "if (blockIdx.x == 0) { out[t] = in[t]; out[64 + t] = in[t]; __threadfence(); atomicExch(out + 768 + t, 1); $A "
        "atomicExch(out + 900 + t, 1); }\n"
        "    else { while (!atomicAdd(out + 900 + t, 0)) { } __threadfence(); out[512 + t] = out[t] + out[64 + t]; }",
        ("right", CLEAN, "", ";"),
        ("later_data", RACY, "no_release", "out[64 + t] = 5;"),
        ("later_data_fenced", CLEAN, "", "out[64 + t] = 5; __threadfence();"),
    ),
    _single(
        "wrong_flag",
        "if (blockIdx.x == 0) { out[t] = in[t]; __threadfence(); atomicExch(out + 900 + t, 1); }\n"
        "    else { while (!atomicAdd(out + 900 + $A, 0)) { } __threadfence(); out[512 + t] = out[t]; }",
        ("own", CLEAN, "", "t"),
        ("neighbours", RACY, "no_wait", "(t + 1) % 64"),
        ("first", RACY, "no_wait", "0"),
    ),
    _single(
        "group_flags",
        "auto tile = cg::tiled_partition<32>(cg::this_thread_block()); if (blockIdx.x == 0) { out[t] = in[t]; "
        "tile.sync(); "
        "if (tile.thread_rank() == 0) { $A atomicExch(out + 900 + t / 32, 1); } }\n"
        "    else { if (tile.thread_rank() == 0) { while (!atomicAdd(out + 900 + t / 32, 0)) { } "
        "__threadfence(); } tile.sync(); "
        "out[512 + t] = out[t ^ 1]; }",
        ("right", CLEAN, "cumulative", "__threadfence();"),
        ("no_release", RACY, "no_release", ";"),
        head=GROUPS,
    ),
    _single(
        "group_flags_shuffled",
        "auto tile = cg::tiled_partition<32>(cg::this_thread_block()); if (blockIdx.x == 0) { out[t] = in[t]; "
        "tile.sync(); "
        "if (tile.thread_rank() == 0) { __threadfence(); atomicExch(out + 900 + t / 32, 1); } }\n"
        "    else { int seen = 0; if (tile.thread_rank() == 0) { while (!atomicAdd(out + 900 + t / 32, 0)) { } "
        "__threadfence(); "
        "seen = 1; } $A out[512 + t] = out[t ^ 1] + seen; }",
        ("sync", CLEAN, "cumulative", "tile.sync();"),
        ("shuffle", RACY, "votes", "seen = tile.shfl(seen, 0);"),
        ("any", RACY, "votes", "seen = tile.any(seen);"),
        head=GROUPS,
    ),
    _single(
        "fence_between_warps",
        "__shared__ volatile int ready; __shared__ int s[64]; if (t == 0) { ready = 0; } __syncthreads(); "
        "if (t < 32) { s[t] = in[i]; __syncwarp(); if (t == 0) { $A ready = 1; } } "
        "else { if (t == 32) { while (!ready) { } __threadfence_block(); } __syncwarp(); out[i] = s[t - 32]; }",
        ("right", CLEAN, "cumulative", "__threadfence_block();"),
        ("device", CLEAN, "cumulative", "__threadfence();"),
        ("no_release", RACY, "no_release", ";"),
    ),
    _single(
        "volatile_data",
        "volatile int* data = out; if (blockIdx.x == 0) { data[t] = in[t]; $A atomicExch(out + 900 + t, 1); }\n"
        "    else { while (!atomicAdd(out + 900 + t, 0)) { } __threadfence(); out[512 + t] = data[t]; }",
        ("right", CLEAN, "", "__threadfence();"),
        ("no_release", RACY, "no_release", ";"),
        ("block_fence", RACY, "narrow_release", "__threadfence_block();"),
    ),
    _single(
        "device_flag",
        "$A",
        (
            "right",
            CLEAN,
            "",
            (
                "if (blockIdx.x == 0) { shared_by_all[t] = in[t]; __threadfence(); atomicExch(raised + t, 1); }\n"
                "    else { while (!atomicExch(raised + t, 0)) { } __threadfence(); out[t] = shared_by_all[t]; }"
            ),
        ),
        (
            "no_release",
            RACY,
            "no_release",
            (
                "if (blockIdx.x == 0) { shared_by_all[t] = in[t]; atomicExch(raised + t, 1); }\n"
                "    else { while (!atomicExch(raised + t, 0)) { } __threadfence(); out[t] = shared_by_all[t]; }"
            ),
        ),
        head="__device__ int shared_by_all[64], raised[64];\n",
    ),
    _single(
        "exchange_by_atomics",
        "if (blockIdx.x == 0) { atomicExch(out + t, in[t]); atomicExch(out + 900 + t, 1); }\n"
        "    else { while (!atomicAdd(out + 900 + t, 0)) { } out[512 + t] = $A; }",
        ("atomic", CLEAN, "atomic", "atomicAdd(out + t, 0)"),
        ("plain", RACY, "no_release", "out[t]"),
    ),
)
"""Schemes of other shapes, written and labelled when all others were judged rightly; judged once before any mending."""

_WORDS = "unsigned long long* sums = (unsigned long long*)out; "
_NEXT = "__double_as_longlong(in[i] + __longlong_as_double(assumed))"
_SWAPS = "do { assumed = old; old = atomicCAS(%s, assumed, %s); } while (assumed != old);"
_ADDS = _SWAPS % ("out", "assumed + 1")

COMPARE_AND_SWAP = (
    _single(
        "adds_by_swaps",
        "int old, assumed; $A",
        ("guide", CLEAN, "tested", f"old = out[0]; {_ADDS}"),
        ("anew", CLEAN, "tested", "do { old = out[0]; } while (atomicCAS(out, old, old + 1) != old);"),
        ("two_words", CLEAN, "tested", f"int other = out[64]; old = out[0]; {_ADDS} atomicCAS(out + 64, other, t);"),
        ("count_between", CLEAN, "tested", f"old = out[0]; atomicAdd(out + 64, 1); {_ADDS}"),
        ("once", CLEAN, "tested", "old = out[0]; atomicCAS(out, old, old + 1);"),
        ("read_twice", RACY, "untested", f"out[512 + i] = out[0]; old = out[0]; {_ADDS}"),
        ("read_behind", RACY, "untested", f"old = out[0]; {_ADDS} out[512 + i] = out[0];"),
        ("early_exit", RACY, "untested", f"old = out[0]; if (old < 60) {{ {_ADDS} }}"),
        ("other_word", RACY, "untested", "old = out[0]; atomicCAS(out + 64, old, 1); atomicAdd(out, 1);"),
        ("other_value", RACY, "untested", "old = out[0]; atomicCAS(out, old + 500, 1); atomicAdd(out, 1);"),
        ("added", RACY, "untested", "old = out[0]; atomicAdd(out, 1); out[512 + i] = old;"),
        ("block_scope", RACY, "block_scope", f"old = out[0]; {_ADDS.replace('CAS', 'CAS_block')}"),
        ("plain_store", RACY, "plain_store", f"if (i == 5) out[0] = 7; old = out[0]; {_ADDS}"),
    ),
    _single(
        "adds_doubles_by_swaps",
        f"{_WORDS} unsigned long long old, assumed; $A",
        ("guide", CLEAN, "tested", f"old = *sums; {_SWAPS % ('sums', _NEXT)}"),
        ("read_behind", RACY, "untested", f"old = *sums; {_SWAPS % ('sums', _NEXT)} sums[256 + i] = *sums;"),
    ),
    _single(
        "adds_by_swaps_in_block",
        "__shared__ int sum; if (t == 0) sum = 0; __syncthreads(); int old = sum, assumed; $A",
        ("guide", CLEAN, "tested", _SWAPS % ("&sum", "assumed + 1")),
        ("by_block", CLEAN, "tested", _SWAPS.replace("CAS", "CAS_block") % ("&sum", "assumed + 1")),
        ("behind_barrier", CLEAN, "barrier", f"{_SWAPS % ('&sum', 'assumed + 1')} __syncthreads(); out[i] = sum;"),
        ("behind", RACY, "untested", f"{_SWAPS % ('&sum', 'assumed + 1')} out[i] = sum;"),
        ("added", RACY, "untested", "atomicAdd(&sum, old);"),
    ),
    _single(
        "adds_by_reference",
        "int old = out[0]; cuda::atomic_ref<int, cuda::thread_scope_device> sum(out[0]); $A",
        ("guide", CLEAN, "tested", "while (!sum.compare_exchange_strong(old, old + 1)) { }"),
        ("exchanged", RACY, "untested", "sum.exchange(old + 1);"),
        head=LIBRARY,
    ),
)
"""Loops of compare-and-swap that begin with a plain read, with what makes them wrong; labelled before the first run."""

PATTERNS = (*_of_schemes(), *SINGLES, *HELD_OUT, *COMPARE_AND_SWAP)


def kernels() -> tuple[Kernel, ...]:
    """All kernels of this suite, by name."""
    return tuple(
        sorted((kernel for pattern in PATTERNS for kernel in variants(pattern)), key=lambda kernel: kernel.name)
    )
