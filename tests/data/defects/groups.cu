// What cooperative groups and the warp's newer primitives must give; every thread writes 1 where all of it is right.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

__global__ void tiles(int* ok) {
    const cg::thread_block block = cg::this_thread_block();
    const cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    const auto tile = cg::tiled_partition<8>(warp);
    const int rank = block.thread_rank(), in_tile = tile.thread_rank();
    bool right = block.size() == 64 && warp.size() == 32 && in_tile == rank % 8;
    right &= tile.meta_group_rank() == warp.thread_rank() / 8 && tile.meta_group_size() == 4;
    right &= warp.meta_group_rank() == rank / 32 && warp.meta_group_size() == 2;
    right &= tile.shfl(rank, 3) == rank / 8 * 8 + 3 && tile.shfl_xor(rank, 1) == (rank ^ 1);
    right &= tile.shfl_down(rank, 2) == (in_tile < 6 ? rank + 2 : rank);
    right &= tile.shfl_up(rank, 2) == (in_tile < 2 ? rank : rank - 2);
    right &= warp.shfl(make_float4(rank, 1, 2, 3), 5).x == rank / 32 * 32 + 5;
    right &= tile.ballot(in_tile == 2) == 4 && tile.any(in_tile == 2) && !tile.all(in_tile == 2);
    right &= tile.match_any(in_tile % 2) == (in_tile % 2 ? 0xaau : 0x55u);
    right &= cg::this_grid().thread_rank() == rank && cg::this_grid().size() == 64;
    tile.sync();
    cg::sync(block);
    ok[rank] = right;
}

__global__ void reductions(int* ok) {
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const auto tile = cg::tiled_partition<4>(cg::this_thread_block());
    const int lane = warp.thread_rank();
    bool right = cg::reduce(warp, lane, cg::plus<int>()) == 496 && cg::reduce(warp, 1.5f, cg::plus<float>()) == 48.0f;
    right &= cg::reduce(tile, lane, cg::greater<int>()) == lane / 4 * 4 + 3;
    right &= cg::reduce(tile, lane, cg::less<int>()) == lane / 4 * 4;
    right &= cg::inclusive_scan(warp, 2) == 2 * (lane + 1);
    right &= cg::exclusive_scan(tile, 3, cg::plus<int>()) == 3 * (lane % 4);
    ok[threadIdx.x] = right;
}

__device__ int sum_of(cg::thread_group group, int* kept, int value) {
    const int rank = group.thread_rank();
    for (int half = group.size() / 2; half > 0; half /= 2) {
        kept[rank] = value;
        group.sync();
        if (rank < half) value += kept[rank + half];
        group.sync();
    }
    return value;
}

__global__ void dynamic_groups(int* ok) {
    __shared__ int kept[64];
    const cg::thread_block block = cg::this_thread_block();
    const int all = sum_of(block, kept, 1);
    block.sync();
    const auto part = cg::tiled_partition(block, 16);
    const int some = sum_of(part, kept + threadIdx.x / 16 * 16, 1);
    ok[threadIdx.x] = (threadIdx.x > 0 || all == 64) && (part.thread_rank() > 0 || some == 16);
}

__global__ void coalesced(int* ok) {
    bool right = true;
    if (threadIdx.x % 3 == 0) {
        const cg::coalesced_group active = cg::coalesced_threads();
        right &= active.size() == (threadIdx.x < 32 ? 11u : 11u);
        right &= cg::reduce(active, 1, cg::plus<int>()) == static_cast<int>(active.size());
        right &= active.shfl(static_cast<int>(threadIdx.x), 0) == (threadIdx.x < 32 ? 0 : 33);
        active.sync();
    } else {
        right &= __popc(__activemask()) == 21;
    }
    ok[threadIdx.x] = right;
}

__global__ void copied(int* ok, const int* in) {
    __shared__ int tile[64];
    const auto block = cg::this_thread_block();
    cg::memcpy_async(block, tile, in, sizeof tile);
    cg::wait(block);
    ok[threadIdx.x] = tile[63 - threadIdx.x] == in[63 - threadIdx.x];
}

__global__ void primitives(int* ok) {
    __shared__ int counter;
    const unsigned all = 0xffffffffu;
    const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0) counter = 0;
    __syncthreads();
    int same;
    bool right = __match_any_sync(all, lane % 4) == 0x11111111u << lane % 4;
    right &= __match_all_sync(all, 7, &same) == all && same;
    right &= __match_all_sync(all, lane, &same) == 0 && !same;
    right &= __reduce_add_sync(all, lane) == 496 && __reduce_max_sync(all, lane) == 31 && __reduce_min_sync(all, lane) == 0;
    right &= __reduce_or_sync(all, 1u << lane) == all && __reduce_and_sync(all, ~0u) == all;
    right &= __funnelshift_l(0x80000000u, 1u, 1) == 3u && __funnelshift_r(0u, 1u, 4) == 0x10000000u;
    right &= __byte_perm(0x33221100u, 0x77665544u, 0x7410u) == 0x77441100u && __popc(lane | 32) == __popc(lane) + 1;
    atomicAdd_block(&counter, 1);
    atomicMax_system(&counter, 1);
    __syncthreads();
    ok[threadIdx.x] = right && counter == 64;
}
