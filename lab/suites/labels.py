"""Labels that a rule corrects, and why the emulator and a label differ otherwise; pure.

A label changes only by a rule of the CUDA C++ programming guide or the PTX ISA, never because of what was reported.
"""

from __future__ import annotations

import re

UNINITIALISED = "adds 32 words of a shared array of which its 16 warps have written 16 (guide: no initial value)"
EQUAL_STORES = "several threads store one value to one word by plain stores (PTX, data races)"
PLAIN_RACE = "one thread stores to a word that another loads, both by plain accesses (PTX, data races)"
UNORDERED_SUM = "reads a sum in shared memory to which other threads still add, without a barrier (PTX, data races)"
LEFT_LOOP = "sums over a block whose other warps have left the loop: adds words that nobody wrote (guide, shuffles)"
NO_EXCESS = "no access outside an array: the host launches a block for each element, so that the guard never fails"
NO_BOUNDS = "no access outside an array: behind a node's neighbours are those of a node of a higher number"
NO_SYNCWARP = "lanes of a warp exchange data without __syncwarp (guide, independent thread scheduling)"

CORRECTED: tuple[tuple[str, str, bool, str], ...] = (
    ("indigo", r"TC_.*_Reduction_.*", True, UNINITIALISED),
    ("indigo", r"MST_CUDA_E_Topo_CudaAtomic_.*", True, EQUAL_STORES),
    ("indigo", r"(?:CC|SSSP)_CUDA_V_Data_.*_(?:Warp|Block)_.*", True, EQUAL_STORES),
    ("indigo", r"PR_CUDA_Pull_.*_NonDeterm_.*", True, PLAIN_RACE),
    ("indigo", r"PR_CUDA_.*_(?:Warp|Block)_(?:Determ|NoRaceBug)_.*", True, EQUAL_STORES),
    ("indigo", r"PR_CUDA_Pull_.*_Thread_Determ_BlockAdd", True, UNORDERED_SUM),
    ("indigo", r"PR_CUDA_.*_Thread_(?:Determ|NoRaceBug)_Reduction", True, LEFT_LOOP),
    ("indigo", r".*_Block_.*_ExcessThreadsBug(?:_.*)?", False, NO_EXCESS),
    ("indigo", r"TC_CUDA_E_.*_(?:BlockAdd|GlobalAdd)_.*_NbrBoundsBug_.*", False, NO_BOUNDS),
    ("gpuverify", r"pointertests/test(?:12|_copy_between_(?:memory_spaces|pointers))", True, EQUAL_STORES),
    (
        "gpuverify",
        r"scope",
        True,
        "reads 4096 words of a shared array of which 1024 are written (guide: no initial value)",
    ),
    ("gpuverify", r"warpsync/(?:2d|intragroup_scan|scan_warp|shuffle)", True, NO_SYNCWARP),
)
"""Suite, names, whether they are defective, and by what rule."""

EXPLAINED: tuple[tuple[str, str, str], ...] = (
    (
        "indigo",
        r".*_Data_.*_BoundsBug_.*",
        "latent: the place behind the worklist's last is inside its array, and holds 0",
    ),
    (
        "indigo",
        r"(?:CC|SSSP)_CUDA_V_Data_.*_(?:Warp|Block)_.*",
        "latent: no two threads store to that word on these graphs",
    ),
    ("gpuverify", r"annotation_tests/test_at_most_one", "assumes of all threads together what a launch does not hold"),
    ("gpuverify", r"globalarray/fail", "needs other contents of a __constant__ array"),
    ("gpuverify", r"param_values/value_\w+", "needs another integer than the rule gives"),
    ("gpuverify", r"misc/fail/miscfail7", "needs a null pointer"),
    ("gpuverify", r"misc/fail/miscfail2", "what is missing is an invariant of its proof, not of the code"),
    ("gpuverify", r"function_pointers/funcptr_to_ptr_add", "needs the address of a device function"),
    ("gpuverify", r"ctimesgid|reduced_strength_with_requires", "the rule's arrays are shorter than it writes"),
    ("gpuverify", r"pointers_in_structs/test\d", "the rule's structs hold null pointers, which it goes to"),
)
"""Suite, names, and why the emulator differs from the label."""


def corrected(suite: str, name: str, *, defective: bool) -> tuple[bool, str]:
    """The label of a program by the rules, and the rule; an empty one where its own label stands."""
    for of, names, label, rule in CORRECTED:
        if of == suite and re.fullmatch(names, name) and label != defective:
            return label, rule
    return defective, ""


def explained(suite: str, name: str) -> str:
    """Why the emulator differs from a label that stands; empty where that is not known."""
    return next((why for of, names, why in EXPLAINED if of == suite and re.fullmatch(names, name)), "")
