// The problem that a build is for: heads of HEAD columns, full or CAUSAL attention (a query sees no later key).
#pragma once

#ifndef HEAD
#define HEAD 64
#endif
#ifndef CAUSAL
#define CAUSAL 0
#endif

// 1 / sqrt(HEAD) times log2(e), since the hardware computes powers of two.
#define SCORE_FACTOR ((HEAD == 64 ? 0.125f : 0.08838834764f) * 1.44269504089f)

__device__ __forceinline__ float power_of_two(float exponent) {
#ifdef PEAKGATE_EMULATED
    return exp2f(exponent);
#else
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
    return power;
#endif
}
