#include <cuda.h>
#include <cuda/barrier>
#include <utility>
using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace cde = cuda::device::experimental;
// As the programming guide has it: a tile comes, is counted up by one, and goes.
extern "C" __global__ void guide(const __grid_constant__ CUtensorMap map, const int* ones, int x, int y) {
    __shared__ alignas(128) int tile[8][32];
    __shared__ alignas(16) int one[32];
    __shared__ barrier bar;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        INIT_FENCE;
    }
    __syncthreads();
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_tensor_2d_global_to_shared(&tile, &map, x, y, bar);
        cuda::device::memcpy_async_tx(one, ones, cuda::aligned_size_t<16>(sizeof one), bar);
        token = cuda::device::barrier_arrive_tx(bar, 1, sizeof tile + sizeof one);
    } else {
        token = bar.arrive();
    }
    bar.wait(std::move(token));
    for (int row = 0; row < 8; ++row) tile[row][threadIdx.x] += one[threadIdx.x];
    FENCE;
    __syncthreads();
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_tensor_2d_shared_to_global(&map, x, y, &tile);
        cde::cp_async_bulk_commit_group();
        cde::cp_async_bulk_wait_group_read<0>();
    }
}
