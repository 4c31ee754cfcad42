// mma_sync: tensor cores through the PTX instruction mma.sync, on swizzled tiles (warp_mma.cuh).
//
// Against wmma: the mapping of elements to registers is specified, so ldmatrix loads four 8 x 8 matrices with one
// instruction from tiles without padding, sums are stored from registers to C, and slices are twice as deep. While a
// slice is multiplied, the next one is being loaded into registers. Expect a clear gain, with the barriers as the
// remaining limit.
//
// Launch: 256 threads, grid (ceil(N / 128), ceil(M / 128)).

#include "../common/warp_mma.cuh"

#define SIDE 128
#define THREADS 256
#define PIECES (SIDE * DEPTH / 8 / THREADS)

extern "C" __global__ void __launch_bounds__(THREADS)
    mma_sync(__nv_bfloat16* __restrict__ C, const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, int M, int N, int K) {
    __shared__ __align__(128) unsigned char tile_of_a[SIDE * ROW_BYTES];
    __shared__ __align__(128) unsigned char tile_of_b[SIDE * ROW_BYTES];

    const int first_row = blockIdx.y * SIDE;
    const int first_col = blockIdx.x * SIDE;
    const int warp = threadIdx.x / 32;
    const int row = warp / 4 * 64;
    const int col = warp % 4 * 32;
    const int loaded_row = threadIdx.x / 8;
    const int piece = threadIdx.x % 8;

    WarpSums<4, 4> sums;
    uint4 a[PIECES], b[PIECES];
    const auto load = [&](int k) {
#pragma unroll
        for (int i = 0; i < PIECES; ++i) {
            a[i] = load_eight(A, first_row + loaded_row + 32 * i, M, k + piece * 8, K);
            b[i] = load_eight(B, first_col + loaded_row + 32 * i, N, k + piece * 8, K);
        }
    };
    load(0);
    for (int k = 0; k < K; k += DEPTH) {
        __syncthreads();  // the previous slice has been read
#pragma unroll
        for (int i = 0; i < PIECES; ++i) {
            *reinterpret_cast<uint4*>(tile_of_a + place_of(loaded_row + 32 * i, piece)) = a[i];
            *reinterpret_cast<uint4*>(tile_of_b + place_of(loaded_row + 32 * i, piece)) = b[i];
        }
        __syncthreads();
        load(k + DEPTH);
        sums.add_slice(static_cast<unsigned>(__cvta_generic_to_shared(tile_of_a)), row,
                       static_cast<unsigned>(__cvta_generic_to_shared(tile_of_b)), col);
    }
    sums.store(C, first_row + row, first_col + col, M, N);
}
