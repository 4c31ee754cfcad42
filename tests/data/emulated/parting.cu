extern "C" __global__ void parting(float* out) {
    __shared__ __align__(16) float row[2][32];
    row[0][threadIdx.x] = row[1][threadIdx.x] = threadIdx.x;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    for (int i = 0; i < 2 && threadIdx.x == 0; ++i) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 128;"
                     ::"l"(out + 32 * i), "r"((unsigned)__cvta_generic_to_shared(row[i])) : "memory");
        COMMIT;
    }
    WAIT;
}
