extern "C" __global__ void moves(unsigned short* out, const unsigned short* in, unsigned short* moved) {
    __shared__ __align__(16) unsigned short tile[LANES * 8];
    for (int i = 0; i < 8; ++i) tile[threadIdx.x * 8 + i] = in[threadIdx.x * 8 + i];
    WAIT;
    unsigned r[4], t[4];
    const unsigned at = (unsigned)__cvta_generic_to_shared(tile + (threadIdx.x ROW) * 8) + SHIFT;
    if (threadIdx.x < STAY) asm volatile("ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
    for (int i = 0; i < 4; ++i) {
        asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(t[i]) : "r"(r[i]));
        ((unsigned*)moved)[i * 32 + threadIdx.x] = t[i];
    }
    __syncthreads();
    asm volatile("stmatrix.sync.aligned.x4.m8n8.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(at), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]));
    WAIT;
    for (int i = 0; i < 8; ++i) out[threadIdx.x * 8 + i] = tile[threadIdx.x * 8 + i];
}
