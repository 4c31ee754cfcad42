extern "C" __global__ void elected(int* out) {
    __shared__ int values[32];
    values[threadIdx.x] = threadIdx.x;
    ORDER;
    unsigned chosen;
    asm volatile("{ .reg .pred p; elect.sync _|p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(chosen) : "r"(LANES));
    if (chosen) *out = values[5] + values[threadIdx.x];
}
