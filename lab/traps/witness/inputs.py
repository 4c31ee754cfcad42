"""Inputs on which each wrong kernel is wrong: by project and case, (values of the inputs in order, size or None)."""
import numpy as np


def tiled(*values):
    return lambda shape: np.resize(np.array(values), shape)


def rowwise(*values):
    """Each row starts with these values and goes on with the last."""
    def make(shape):
        out = np.full(shape, values[-1])
        k = min(len(values), shape[-1])
        out[..., :k] = values[:k]
        return out
    return make


def distinct_except(*places, value=5.0):
    def make(shape):
        out = np.resize(np.linspace(-1, 1, shape[-1]), shape)
        out[..., list(places)] = value
        return out
    return make


def lone(shape):
    out = np.zeros(shape)
    out[..., 3] = 1j
    return out


def hollow(shape):
    out = np.ones(shape)
    out[::16, ::16] = 0
    out[15::16, 15::16] = 0
    return out


INPUTS = {
    "elementwise": {
        "act.softplus_direct": ([100.0], None), "act.tanh_expm1": ([50.0], None), "act.tanh_by_exp": ([1e-8], None), "act.sigmoid_ratio": ([100.0], None),
        "act.log_of_one_plus": ([1e-6], None), "act.exp_minus_one": ([1e-6], None), "act.hypot_squares": ([3e20, 4e20], None), "act.scale_vec4_cases": ([1.0], 258),
        "act.mix_memo": ([1.0, None], None), "act.scale_turns": ([1.0], None), "act.max_by_bits": ([-1.0, -2.0], None),
        "half.squash_half": ([300.0], None), "half.mean3_half": ([30000.0] * 3, None), "half.recip_double": ([1e50], None),
    },
    "casts": {
        "quant.round_away": ([0.5 / 16], None), "quant.round_floor_half": ([0.5 / 16], None), "quant.no_low_clamp": ([-10.0], None), "quant.clamp_127": ([-8.0], None), "quant.to_u32_by_int": ([3e9], None),
        "quant.dequant_wraps": ([-128], None), "quant.u32_to_float_signed": ([3000000000], None), "quant.i64_saturate_word": ([2**31], None), "quant.triple_bf16_fixed": ([0.001], None), "quant.triple_half_fixed": ([20.0], None),
        "bits.e4m3_decode_bits": ([2.0**-9], None), "bits.e5m2_decode_bits": ([3 * 2.0**-16], None), "bits.unpack4_limit": ([-8], None), "bits.pack4_wraps": ([-2.0], None), "bits.average_i16": ([20000, 20000], None),
    },
    "reductions": {
        "rows.sum_vec4_whole": ([1.0], (3, 516)), "rows.sum_registers": ([1.0], (3, 2100)), "rows.max_flt_min": ([-1.0], None), "rows.max_lowest_1e4": ([-2e4], None), "rows.argmax_lanes": ([distinct_except(5, 128)], (3, 300)),
        "rows.variance_moments": ([None], (3, 1030)), "rows.norm_squares": ([1e-30], None), "rows.mean_bf16_partial": ([1.0], (2, 40000)), "rows.mean_half_sum": ([10.0], (2, 8192)), "rows.absmax_i8_byte": ([-128], None),
        "whole.sum_i32_thread": ([2**31 - 1], 20000), "whole.count_sign": ([0.0], None),
    },
    "softmax": {
        "soft.no_max": ([100.0], None), "soft.max_from_zero": ([-200.0], None), "soft.clamp_80": ([tiled(100.0, 90.0)], (3, 32)), "soft.online_dropped": ([rowwise(*[0.0] * 128, 5.0)], (3, 256)), "soft.log_of_soft": ([rowwise(0.0, -200.0)], (3, 31)),
        "soft.lse_direct": ([100.0], None), "soft.share_positive": ([-0.4], (3, 3)), "soft.absmax_recip": ([1e-6], None), "soft.soft_half_start": ([-3000.0], None), "soft.masked_1e4": ([-2e4, None], (31, 33)), "soft.entropy_eps": ([rowwise(50.0, 0.0), 1], (3, 31)),
    },
    "scan": {
        "scans.sum_tiles8": ([1.0], (2, 2600)), "scans.sum_i64_carry": ([2**31 - 1], (2, 600)), "scans.max_f32_low": ([-1e7], None), "scans.max_i32_zero": ([-(2**31)], None), "scans.rank_u8_add": ([2], None),
        "scans.sum_i8_short": ([127], (2, 600)), "scans.segmented_one": ([1.0, 16], None), "scans.bf16_carry": ([0.75], (2, 1030)),
    },
    "histogram": {
        "counts.packed_bytes": ([7], 4099), "counts.warp_distinct": ([7], None), "counts.rounds16": ([7], 40000), "counts.sentinel_u16": ([65535], None), "counts.unit_bins_open": ([1.0], None), "counts.unit_bins_trunc": ([-0.001], None),
        "counts.modulo_i64_abs": ([-(2**63)], None), "counts.weighted_fixed": ([7, 1e-9], None), "counts.runs_short": ([7], None),
    },
    "sort": {
        "order.sort_f32_pad": ([2e9], (3, 31)), "order.rank_f32_distinct": ([distinct_except(0, 2)], (3, 31)), "order.rank_u64_high": ([tiled(5, 3)], (3, 32)), "order.rank_i64_difference": ([tiled(1, -(2**63))], (3, 32)),
        "order.argsort_reversed": ([1.0], (3, 31)), "order.argsort_i32_packed": ([tiled(5, 3)], (3, 32)), "order.top4_below": ([2.0], (3, 31)), "order.top4_start": ([-10.0], (3, 31)), "order.median_distinct": ([1.0], (3, 31)),
    },
    "permute": {
        "moves.turn_low": ([2**53 + 1], None), "moves.turn_in_place_tiles": ([None], 130), "moves.gather_unsigned": ([None, -1], 31), "moves.scatter_warp": ([1, 3], 100), "moves.permute3_equal": ([None], (2, 4, 16)),
        "moves.reverse_vec4_order": ([None], 100), "moves.where_truth": ([1e-8, 1.0], None),
    },
    "gemm": {
        "mm.corner": ([None, None], (40, 40, 20)), "mm.quads_of_k": ([1.0, 1.0], (16, 16, 132)), "mm.first_zero": ([hollow, 1.0], (48, 16, 48)), "mm.skip_small": ([1e-8, 1.0], None), "mm.i8_pairs": ([-128, -128], (5, 5, 6)),
        "mm.i16_int": ([-32768, -32768], (5, 5, 6)), "mm.half_sums": ([0.999, 0.999], (2, 2, 4096)), "mm.half_products": ([300.0, 300.0], None), "mm.bf16_bytes": ([3.0, 3.0], None), "mm.e4m3_half": ([448.0, 448.0], None), "mm.split_floor": ([1.0, 1.0], (3, 3, 257)),
    },
    "conv": {
        "stencils.conv5_halo": ([1.0], 258), "stencils.laplace_rows": ([1.0], (68, 68)), "stencils.box3_approx": ([9], None), "stencils.gauss5_u16": ([255], None), "stencils.pool3_zero": ([-2000.0], None), "stencils.pool3_i8_pad": ([-128], None),
        "stencils.edges_square": ([tiled(0.0, 300.0)], (4, 32)), "stencils.median3_sum": ([tiled(2**31 - 1, -1, 5)], 99), "stencils.life_bytes": ([tiled(0, 3, 0, 0, 0)], (30, 31)),
    },
    "intops": {
        "ints.abs_saturate": ([-(2**31)], None), "ints.clz_round": ([0x01FFFFFF], None), "ints.ctz_ffs": ([0], None), "ints.popc_nibbles": ([0xFFFFFFFF], None), "ints.add_saturate_low": ([-(2**31), 0], None), "ints.shift_masked": ([5, 32], None),
        "ints.divide_trunc": ([-6, 2], None), "ints.gcd_zero": ([5, 0], None), "ints.gcd_steps": ([2971215073, 1836311903], None),
        "wide.clz64_double": ([2**60 - 1], None), "wide.mulhi64_carry": ([2**64 - 1, 2**64 - 1], None), "wide.gcd64_first": ([2**40, 2**40], None), "wide.max64_words": ([1, 2**31], None), "wide.equal64": ([1, 2**32 + 1], None),
        "wide.mod_mul_late": ([2**31 - 2, 2**31 - 2], None), "wide.isqrt_double": ([2**62 - 1], None), "wide.sat_i16": ([-32768, 0], None),
    },
    "boolean": {
        "masks.above_byte": ([1.0], None), "masks.above_bits": ([1.0], None), "masks.nonzero_low": ([0x01000000], None), "masks.nonzero_store": ([7], None), "masks.invert_bits": ([0], None), "masks.equal_bits": ([-0.0, 0.0], None),
        "masks.less_strict": ([1.0, 1.0], None), "masks.less_difference": ([-(2**31), 1], None), "masks.all_lanes": ([rowwise(0, 1)], (3, 300)), "masks.pack_sign": ([0], None), "masks.keep_int": ([1e-9], (3, 31)), "masks.keep_odd_mod": ([-3], (3, 31)),
        "masks.unique_runs_zero": ([rowwise(0, 1)], (3, 31)),
    },
    "attention": {
        "layers.norm_moments": ([None], (3, 1030)), "layers.norm_eps_outside": ([None], (3, 1030)), "layers.norm_bessel": ([None], (3, 1030)), "layers.rms_square": ([300.0], None), "layers.rms_cached": ([1.0], (2, 4096)),
        "layers.attention_capped": ([3.9, lambda shape: np.resize([[3.9], [3.5]], (shape[0], 1)) * np.ones(shape), None], (2, 66)), "layers.attention_no_max": ([7.0, 7.0, None], (2, 31)), "layers.attention_half_score": ([40.0, 40.0, None], (2, 31)),
        "layers.attention_pairs": ([None, None, None], (2, 66)), "layers.causal_mask": ([9.0, -9.0, None], 33), "layers.rope_fast": ([1.0, 90000.0], None),
    },
    "complex": {
        "waves.divide_square": ([1.0, 1e25], None), "waves.divide_real": ([1.0, 1j], None), "waves.modulus_square": ([1e25], None), "waves.phase_ratio": ([-1.0], None), "waves.root_cancels": ([1 + 1e-4j], None), "waves.root_sign": ([-4.0], None), "waves.fourier_skip": ([lone], 31),
    },
    "atomics": {
        "sync.max_bits": ([3, tiled(-1.0, -2.0)], None), "sync.min_u64": ([3, tiled(-5, 3)], None), "sync.min_cas32": ([3, lambda shape: (2**40 - 1 - 2**33 * (np.arange(shape[0]) % 97))], 4099), "sync.lock_tries": ([3, 5], 31), "sync.add_u32": ([3, -1], None),
        "sync.add_halves": ([3, 0x00018000], None), "sync.last_block_keeps": ([2**31 - 1], 4099), "sync.distinct_minus": ([-1], (3, 31)), "sync.scale_calls": ([1.0], 4099),
    },
}
