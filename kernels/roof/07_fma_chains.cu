// fma_chains: nothing but fused multiply-adds (FMA): the arithmetic roof in FP32.
//
// An FMA can be issued every cycle but takes about four cycles, so each thread runs CHAINS independent chains, whose
// results never wait for each other. One constant of each step is an immediate in the instruction, which leaves two
// register operands and no register-bank conflict. A pair of steps, 2x + 2 and then x / 2 + 2, adds 3 to a chain: all
// intermediate values are small integers, so the sum that is written is exact, and a single missing step shows. Such
// values switch few bits: a kernel on random data may draw more power and run at a lower clock.
//
// Expect 97 to 99 % of (FP32 lanes) x clock x 2. ROUND_PAIRS keeps the loop body at 8 KB of code, well inside the
// instruction cache, and the loop's own instructions below 1 %.

#ifndef CHAINS
#define CHAINS 8
#endif
#ifndef ROUND_PAIRS
#define ROUND_PAIRS 32
#endif

extern "C" __global__ void fma_chains(float* __restrict__ out, size_t n, int rounds) {
    const size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    float chain[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) {
        chain[c] = (float)((unsigned)thread % 1024 + c);
    }
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int pair = 0; pair < ROUND_PAIRS; ++pair) {
#pragma unroll
            for (int c = 0; c < CHAINS; ++c) {
                chain[c] = fmaf(chain[c], 2.0f, 2.0f);
            }
#pragma unroll
            for (int c = 0; c < CHAINS; ++c) {
                chain[c] = fmaf(chain[c], 0.5f, 2.0f);
            }
        }
    }
    float sum = 0.0f;
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) {
        sum += chain[c];
    }
    if (thread < n) {
        out[thread] = sum;
    }
}
