#include <cub/cub.cuh>
constexpr int THREADS = 96, ITEMS = 4;
struct Product { __device__ int operator()(int a, int b) const { return a * b % 251; } };

__global__ void sums(int* out, const int* in, int n) {
    using Block = cub::BlockReduce<int, THREADS>;
    using Warp = cub::WarpReduce<int>;
    __shared__ typename Block::TempStorage storage;
    __shared__ typename Warp::TempStorage of_warp[3];
    int items[ITEMS];
    cub::BlockLoad<int, THREADS, ITEMS, cub::BLOCK_LOAD_STRIPED>().Load(in, items, n, 0);
    const int sum = Block(storage).Sum(items);
    __syncthreads();
    const int most = Block(storage).Reduce(items[0], cub::Max());
    __syncthreads();
    const int product = Block(storage).Reduce(items[0], Product(), 7);
    const int warp = Warp(of_warp[threadIdx.x / 32]).Sum(items[0]);
    if (threadIdx.x == 0) out[0] = sum, out[1] = most, out[2] = product;
    if (threadIdx.x % 32 == 0) out[3 + threadIdx.x / 32] = warp;
}

__global__ void scans(int* out, const int* in, int n) {
    using Block = cub::BlockScan<int, THREADS, cub::BLOCK_SCAN_WARP_SCANS>;
    using Warp = cub::WarpScan<int, 16>;
    __shared__ typename Block::TempStorage storage;
    __shared__ typename Warp::TempStorage of_warp[6];
    int items[ITEMS], total, of_half;
    cub::BlockLoad<int, THREADS, ITEMS, cub::BLOCK_LOAD_WARP_TRANSPOSE>().Load(in, items);
    Warp(of_warp[threadIdx.x / 16]).InclusiveSum(in[threadIdx.x], of_half);
    Block(storage).ExclusiveSum(items, items, total);
    cub::BlockStore<int, THREADS, ITEMS>().Store(out, items, n);
    out[n + threadIdx.x] = of_half;
    if (threadIdx.x == 0) out[n + THREADS] = total;
}

__global__ void again(int* out, const int* in, int n) {
    using Block = cub::BlockReduce<int, THREADS>;
    __shared__ typename Block::TempStorage storage;
    const int sum = Block(storage).Sum(in[threadIdx.x]);
    const int more = Block(storage).Sum(in[threadIdx.x] + 1);
    if (threadIdx.x == 0) out[0] = sum + more;
}
