"""Why a case is slower: what is read from machine code and from ncu, and which cause comes first."""

from __future__ import annotations

import pytest

from peakgate.compare.ab.causes import ExplainedSide, FindingCause, MachineCode, findings
from peakgate.compare.ab.explain import KnownSide, compared
from peakgate.compile import sass
from peakgate.judge.occupancy import Resources

PLAIN = Resources(registers=32, stack_bytes=0, spill_bytes=0, static_shared_bytes=0)
GLOBAL_LOADS = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"
CYCLES = {"sm__cycles_active.sum": 1e6}

LISTING = """
//--------------------- .text.other --------------------------
.text.other:
        /*0000*/                   FADD R0, R0, R1 ;
//--------------------- .text.axpy --------------------------
.text.axpy:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/                   LDG.E.128 R4, [R2.64] ;
        /*0020*/              @!P2 FFMA R4, R4, R8, R5 ;
        /*0030*/               @P0 BRA `(.L_x_0) ;
        /*0040*/                   EXIT ;
.L_x_1:
        /*0050*/                   BRA `(.L_x_1);
        /*0060*/                   NOP;
.L_x_9:
"""

CUOBJDUMP = """
        Function : axpy
    .headerflags    @"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;    /* 0x00000a00ff017b82 */
                                                             /* 0x000fe20000000800 */
        /*0010*/                   LDG.E.128 R4, [R2.64] ;   /* 0x0000000402047981 */
        /*0020*/              @!P2 FFMA R4, R4, R8, R5 ;     /* 0x0000000804047223 */
        /*0030*/               @P0 BRA 0x10 ;                /* 0xfffffffc00f40947 */
        /*0040*/                   EXIT ;                    /* 0x000000000000794d */
        /*0050*/                   BRA 0x50;                 /* 0xfffffffc00fc7947 */
"""


@pytest.mark.parametrize("listing", [LISTING, CUOBJDUMP])
def test_a_listing_of_either_tool_gives_one_kernels_instructions_and_loops(listing: str) -> None:
    code = sass.parse(listing, "axpy")
    assert [each.opcode for each in code] == ["LDC", "LDG.E.128", "FFMA", "BRA", "EXIT", "BRA"]
    assert sass.mix(code) == {"constant load": 1, "global load": 1, "FP32": 1, "branch": 3}
    assert sass.loops(code) == [3]


def test_a_diff_of_opcodes_is_short_and_counts_repeats() -> None:
    before, after = ["LDG.E"] * 4 + ["FFMA"], ["LDG.E.128", "FFMA", *("STL",) * 3]
    assert sass.diff(before, after) == ["-4 LDG.E", "+LDG.E.128", "+3 STL"]
    assert sass.diff(list("abcdef"), [], most=2) == ["-a", "-b", "and 4 more"]


def side(
    counters: dict[str, float] | None = None, resources: Resources = PLAIN, code: MachineCode | None = None
) -> ExplainedSide:
    return ExplainedSide(resources, code, CYCLES | (counters or {}))


def first(base: ExplainedSide, head: ExplainedSide) -> FindingCause:
    return findings(base, head)[0].cause


SLOWER = {"sm__cycles_active.sum": 2e6}


def test_bank_conflicts_come_first_where_they_take_the_cycles_that_were_lost() -> None:
    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
    waves = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
    stall = "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio"
    base = side({conflicts: 0, waves: 3e4, stall: 1})
    head = side(SLOWER | {conflicts: 9e5, waves: 9.3e5, stall: 30})
    found = findings(base, head)
    assert [each.cause for each in found] == [FindingCause.BANK_CONFLICTS, FindingCause.STALL]
    assert "to 900000, 31" in found[0].sentence


def test_sectors_come_before_the_memory_traffic_they_make() -> None:
    sectors, requests = GLOBAL_LOADS.format("sectors"), GLOBAL_LOADS.format("requests")
    base = side({sectors: 4e5, requests: 1e5, "dram__bytes_read.sum": 1e7})
    head = side(SLOWER | {sectors: 3.2e6, requests: 1e5, "dram__bytes_read.sum": 2e8})
    found = findings(base, head)
    assert [each.cause for each in found] == [FindingCause.SECTORS, FindingCause.DRAM]
    assert "4 to 32" in found[0].sentence


def test_spills_come_first_though_instructions_and_sectors_grow_with_them() -> None:
    spilled = Resources(registers=24, stack_bytes=64, spill_bytes=128, static_shared_bytes=0)
    local = "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"
    head = side(SLOWER | {local: 1e6, "smsp__inst_executed.sum": 5e6}, spilled)
    assert first(side({local: 0, "smsp__inst_executed.sum": 1e6}), head) is FindingCause.SPILLS


def test_a_loop_that_is_no_longer_unrolled_is_named_by_its_body() -> None:
    base = side(code=MachineCode(600, {"FP32": 512}, (516,)))
    head = side(SLOWER | {"smsp__inst_executed.sum": 2}, code=MachineCode(71, {"FP32": 24}, (25, 20)))
    found = findings(base, head)[0]
    assert found.cause is FindingCause.UNROLLING
    assert "516 to 25," in found.sentence


def test_more_traffic_that_costs_few_of_the_lost_cycles_comes_behind_what_may_explain_them() -> None:
    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"
    occupancy = "sm__warps_active.avg.pct_of_peak_sustained_active"
    base, head = side({conflicts: 0, occupancy: 90}), side(SLOWER | {conflicts: 1e3, occupancy: 30})
    assert [each.cause for each in findings(base, head)] == [FindingCause.OCCUPANCY, FindingCause.BANK_CONFLICTS]


def test_equal_sides_have_no_finding_and_missing_counters_make_none() -> None:
    assert findings(side(), side()) == []
    assert findings(ExplainedSide(PLAIN), ExplainedSide(PLAIN)) == []
    assert findings(ExplainedSide(PLAIN), side({GLOBAL_LOADS.format("sectors"): 5.0})) == []


def known(**more: object) -> KnownSide:
    return KnownSide(
        ExplainedSide(PLAIN, MachineCode(5, {"FP32": 5}, ()), dict(CYCLES)), str(more.get("code", "a")), ("FADD",)
    )


def test_a_case_of_equal_code_says_so_and_one_that_does_not_build_says_why() -> None:
    (line,) = compared("a", known(), known()).lines
    assert "Same machine code" in line
    assert compared("a", known(), KnownSide(None, problem="x.cu:3: error")).lines == ["head: x.cu:3: error"]
    assert compared("a", known(), known(code="b")).lines[0].startswith("Compiler: same ")
