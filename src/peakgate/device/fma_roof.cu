// fma_roof: eight independent chains of fused multiply-adds per thread, the arithmetic roof.
//
// An FMA can start every cycle and takes about four to finish; independent chains never wait for each other. One
// constant of each step is an immediate, which leaves two register operands and no register-bank conflict. A pair of
// steps, 2x + 2 and then x / 2 + 2, adds 3 to a chain: all values are small integers, so the sum is exact.

extern "C" __global__ void fma_roof(float* __restrict__ out, int rounds) {
    constexpr int chains = 8;
    constexpr int pairs = 32; // 8 KB of code: well inside the instruction cache, and loop instructions below 1 %
    const size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    float chain[chains];
#pragma unroll
    for (int c = 0; c < chains; ++c) {
        chain[c] = (float)((unsigned)thread % 1024 + c);
    }
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int pair = 0; pair < pairs; ++pair) {
#pragma unroll
            for (int c = 0; c < chains; ++c) {
                chain[c] = fmaf(chain[c], 2.0f, 2.0f);
            }
#pragma unroll
            for (int c = 0; c < chains; ++c) {
                chain[c] = fmaf(chain[c], 0.5f, 2.0f);
            }
        }
    }
    float sum = 0.0f;
#pragma unroll
    for (int c = 0; c < chains; ++c) {
        sum += chain[c];
    }
    out[thread] = sum;
}
