#include <cuda.h>
constexpr int ROWS = 16, BYTES = ROWS * COLS * 2;
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
// Unit of 16 bytes as the swizzle of SPAN bytes has it.
__device__ unsigned place(unsigned byte) { return byte ^ ((byte >> 7 & (SPAN ? SPAN / 16 - 1 : 0)) << 4); }
__device__ void wait(void* barrier, unsigned parity) {
    asm volatile("{\n.reg .pred over;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1, 1000;\n"
                 "@!over bra again;\n}" ::"r"(at(barrier)), "r"(parity) : "memory");
}
// Doubles an array, tiles of one column of tiles each block; one comes while another is at work.
extern "C" __global__ void doubled(const __grid_constant__ CUtensorMap out, const __grid_constant__ CUtensorMap in,
                                   int rows) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ __align__(8) unsigned long long full[2];
    unsigned char* const results = memory + 2 * BYTES;
    const int tiles = (rows + ROWS - 1) / ROWS, column = blockIdx.x * COLS;
    const auto bring = [&](int tile) {
        if (threadIdx.x != 0 || tile >= tiles) return;
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     ::"r"(at(full + tile % 2)), "r"(EXPECTED));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
                     " [%0], [%1, {%2, %3}], [%4], %5;"
                     ::"r"(at(memory + tile % 2 * BYTES) + SHIFT), "l"(&in), "r"(column), "r"(tile * ROWS),
                       "r"(at(full + tile % 2)), "l"(0ull) : "memory");
    };
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < 2; ++slot) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at(full + slot)));
        INIT_FENCE;
        asm volatile("prefetch.tensormap [%0];" ::"l"(&in));
    }
    __syncthreads();
    bring(0);
    for (int tile = 0; tile < tiles; ++tile) {
        bring(tile + 1);
        WAIT(full + tile % 2, tile / 2 % 2);
        for (unsigned i = threadIdx.x; i < ROWS * COLS; i += blockDim.x) {
            const unsigned short value = *(const unsigned short*)(memory + tile % 2 * BYTES + place(2 * i));
            *(unsigned short*)(results + place(2 * i)) = 2 * value;
        }
        FENCE;
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                         ::"l"(&out), "r"(column), "r"(tile * ROWS), "r"(at(results)) : "memory");
            COMMIT;
            READ;
        }
        DONE;
    }
}
