#include <cooperative_groups.h>
namespace cg = cooperative_groups;
// Each block's part of a sum, and of all of them by every block: out[block] = sum of in of its cluster.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) sums(int* out, const int* in) {
    __shared__ int part;
    const cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x == 0) part = 0;
    BLOCK_SYNC;
    atomicAdd(&part, in[blockIdx.x * blockDim.x + threadIdx.x]);
    MIDDLE;
    if (threadIdx.x == 0) {
        int sum = 0;
        for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank) sum += *cluster.map_shared_rank(&part, rank);
        out[blockIdx.x] = sum;
    }
    END;
}
