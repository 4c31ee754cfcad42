// The metadata names column 1 twice in each chunk of four.
extern "C" __global__ void sparse_metadata(float* out, const float* in, int n) {
    const unsigned ones = 0x3c003c00u;
    float sums[4] = {in[threadIdx.x], 0, 0, 0};
    asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "  // DEFECT: INVALID_METADATA
                 "{%0, %1, %2, %3}, {%4, %4}, {%4, %4}, {%0, %1, %2, %3}, %5, 0x0;"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]) : "r"(ones), "r"(0x55555555u));
    out[blockIdx.x * blockDim.x + threadIdx.x] = sums[0] + n;
}
