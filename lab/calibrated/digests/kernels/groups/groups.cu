#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

extern "C" __global__ void groups(int* sums, int* scans, int* moved, int* votes, const int* in, int n) {
    const auto block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<16>(block);
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int v = i < n ? in[i] : 0;
    const int sum = cg::reduce(tile, v, cg::plus<int>());
    const int scan = cg::inclusive_scan(tile, v);
    const int other = tile.shfl_xor(v, 5) - tile.shfl(v, 3);
    const int vote = tile.ballot(v % 3 == 0) + tile.match_any(v % 4);
    int odd = 0;
    if (v % 2) {
        const auto together = cg::coalesced_threads();
        odd = cg::reduce(together, 1, cg::plus<int>()) - static_cast<int>(together.size());
    }
    block.sync();
    if (i >= n) return;
    sums[i] = sum + odd;
    scans[i] = scan;
    moved[i] = other;
    votes[i] = vote;
}
