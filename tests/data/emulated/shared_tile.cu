#include <cuda.h>
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
// Each of two blocks brings its half of a tile of 32 x 8 to both; out[block] = the tile.
extern "C" __global__ void __cluster_dims__(2, 1, 1) shared_tile(int* out, const __grid_constant__ CUtensorMap in) {
    __shared__ __align__(128) int tile[256];
    __shared__ __align__(8) unsigned long long full;
    const unsigned rank = blockIdx.x % 2;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&full)));
        INIT_FENCE;
    }
    BEGIN;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(&full)), "r"(BYTES) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                     " [%0], [%1, {%2, %3}], [%4], %5;"
                     ::"r"(at(tile + rank * 128)), "l"(&in), "r"(0), "r"(rank * 16), "r"(at(&full)), "h"(MASK)
                     : "memory");
    }
    WAIT;
    for (unsigned i = threadIdx.x; i < 256; i += blockDim.x) out[blockIdx.x * 256 + i] = tile[i];
    END;
}
