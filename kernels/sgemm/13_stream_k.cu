// stream_k: every block gets the same amount of work, within one slice of k, whatever the shape of C.
//
// Against barrier_ring: 1536 x 1536 is 72 tiles of 128 x 256 for 132 SMs, and 3072 x 3072 is 288: 2.2 waves, which take
// as long as three. Here the grid has as many blocks as there are SMs, and each takes work until none is left. The
// first tiles, one to two per block, are laid end to end along k and cut into equal ranges; each block multiplies one
// range, which may end inside one tile and begin inside another. The remaining tiles are taken whole. The block that
// has the last slice of a cut tile adds up the tile. The other blocks of that tile store their sums in global memory
// and set a flag. A block processes its range backwards: first the segment that another block needs, last the segment
// for which it needs others, so that blocks hardly ever wait. A block waits only for blocks with lower numbers, and
// takes its number when it starts: those blocks are running or finished, so the wait ends however few blocks the GPU
// runs at a time. Sums are added in the order of the numbers, so results are bitwise repeatable. Flags and counter are
// zero again at the end, ready for the next launch.
//
// Launch: THREADS threads, any number of blocks in x, dynamic shared memory SLOTS * FLOATS_OF_SLOT * 4 bytes. `partial`
// has TILE_ROWS * TILE_COLS floats per block, `flags` one unsigned per block and one more; both are zero before the
// first launch.

#define WRITE_AFTER 1
#define WRITE_STEP 1

#include "offset_slices.cuh"
#include "raster.cuh"
#include "ring_loop.cuh"

// The ranges of the blocks, in `units` slices: block n has first_unit(n) to first_unit(n + 1).
struct Ranges {
    long long units;
    int blocks;

    __device__ __forceinline__ int first_unit(int block) const {
        return static_cast<int>(units * block / blocks);
    }
    __device__ __forceinline__ int block_of(int unit) const {
        return static_cast<int>(((unit + 1LL) * blocks - 1) / units);
    }
};

// The current segment of a block and the rest of its range. It is in shared memory and written by one thread: it is
// read only between two segments, and each register that it took would be missing for the sums.
struct Work {
    int block;
    int begin;  // rest of the block's range
    int end;
    int whole_tile;
    bool done;
    int first_row;  // current segment: its tile, and its slices of k
    int first_col;
    int tile;
    int first_slice;
    int end_slice;
};

// Numbers 0, 1, ... in the order in which blocks start; the last block to start resets the counter.
__device__ __forceinline__ int take_number(unsigned* counter) {
    const int number = static_cast<int>(atomicAdd(counter, 1u));
    if (number + 1 == static_cast<int>(gridDim.x)) {
        atomicExch(counter, 0u);
    }
    return number;
}

// Takes the last segment of the range, or a whole tile once the range is used up. Returns whether there was one.
__device__ __forceinline__ void take_segment(Work& work, int tiles_down, int tiles_across, int slices, int blocks) {
    if (work.begin < work.end) {
        work.tile = (work.end - 1) / slices;
        work.first_slice = max(work.begin - work.tile * slices, 0);
        work.end_slice = work.end - work.tile * slices;
        work.end -= work.end_slice - work.first_slice;
    } else if (work.whole_tile >= tiles_down * tiles_across) {
        work.done = true;
        return;
    } else {
        work.tile = work.whole_tile;
        work.first_slice = 0;
        work.end_slice = slices;
        work.whole_tile += blocks;
    }
    const TileIndex index = raster(work.tile, tiles_down, tiles_across);
    work.first_row = index.row * TILE_ROWS;
    work.first_col = index.col * TILE_COLS;
}

__device__ __forceinline__ float4* place_in_partial(float* partial, int block) {
    return reinterpret_cast<float4*>(partial + offset_of(block, 0, TILE_ROWS * TILE_COLS)) + threadIdx.x;
}

__device__ __forceinline__ void leave_sums(const Sums& sum, float* partial, unsigned* flags, int block) {
    float4* to = place_in_partial(partial, block);
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < THREAD_COLS; j += 4) {
            __stcg(to + (i * (THREAD_COLS / 4) + j / 4) * THREADS, detached(&sum[i][j]));
        }
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicExch(flags + block, 1u);
    }
}

// Adds the partial sums of the blocks from `first` up to `block` for the tile whose last slice `block` has. Blocks
// without a range, which exist when there are fewer slices than blocks, have none.
__device__ __forceinline__ void collect_sums(Sums& sum, float* partial, unsigned* flags, const Ranges& ranges,
                                             int first, int block) {
    const auto left_sums = [&](int other) { return ranges.first_unit(other) < ranges.first_unit(other + 1); };
    for (int other = first + static_cast<int>(threadIdx.x); other < block; other += THREADS) {
        if (left_sums(other)) {
            while (atomicAdd(flags + other, 0u) == 0u) {
            }
            atomicExch(flags + other, 0u);
            __threadfence();
        }
    }
    __syncthreads();
    for (int other = first; other < block; ++other) {
        if (left_sums(other)) {
            const float4* from = place_in_partial(partial, other);
#pragma unroll
            for (int i = 0; i < THREAD_ROWS; ++i) {
#pragma unroll
                for (int j = 0; j < THREAD_COLS; j += 4) {
                    const float4 part = __ldcg(from + (i * (THREAD_COLS / 4) + j / 4) * THREADS);
                    sum[i][j + 0] += part.x;
                    sum[i][j + 1] += part.y;
                    sum[i][j + 2] += part.z;
                    sum[i][j + 3] += part.w;
                }
            }
        }
    }
}

// Computes the segment that `work` describes.
template <bool WHOLE>
__device__ __forceinline__ void make_segment(float* __restrict__ C, const float* __restrict__ A,
                                             const float* __restrict__ B, float* partial, unsigned* flags, int M, int N,
                                             int K, const Work& work, const Ranges& ranges, Ring ring) {
    const int slices = (K + SLICE_DEPTH - 1) / SLICE_DEPTH;
    Sums sum = {};
    const OffsetSlices<WHOLE> from(ring, A, B, M, N, K, work.first_row, work.first_col, work.first_slice * SLICE_DEPTH);
    multiply_slices(sum, ring, from, work.end_slice - work.first_slice);
    if (work.end_slice < slices) {
        leave_sums(sum, partial, flags, work.block);
        return;
    }
    if (work.first_slice > 0) {
        collect_sums(sum, partial, flags, ranges, ranges.block_of(work.tile * slices), work.block);
    }
    store_sums(sum, C, M, N, work.first_row, work.first_col);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    stream_k(float* __restrict__ C, const float* __restrict__ A, const float* __restrict__ B,
             float* __restrict__ partial, unsigned* __restrict__ flags, int M, int N, int K) {
    extern __shared__ __align__(16) float slots[];
    __shared__ Work work;

    const int blocks = gridDim.x;
    const int tiles_down = (M + TILE_ROWS - 1) / TILE_ROWS;
    const int tiles_across = (N + TILE_COLS - 1) / TILE_COLS;
    const int tiles = tiles_down * tiles_across;
    const int slices = (K + SLICE_DEPTH - 1) / SLICE_DEPTH;
    const int cut_tiles = tiles - max(tiles / blocks - 1, 0) * blocks;
    const Ranges ranges = {static_cast<long long>(cut_tiles) * slices, blocks};
    if (threadIdx.x == 0) {
        work.block = take_number(flags + blocks);
        work.begin = ranges.first_unit(work.block);
        work.end = ranges.first_unit(work.block + 1);
        work.whole_tile = cut_tiles + work.block;
        work.done = false;
    }

    Ring ring = new_ring(slots);
    for (;;) {
        if (threadIdx.x == 0) {
            take_segment(work, tiles_down, tiles_across, slices, blocks);
        }
        __syncthreads();
        if (work.done) {
            break;
        }
        if (is_whole(M, N, K, work.first_row, work.first_col)) {
            make_segment<true>(C, A, B, partial, flags, M, N, K, work, ranges, ring);
        } else {
            make_segment<false>(C, A, B, partial, flags, M, N, K, work, ranges, ring);
        }
        ring.slice += work.end_slice - work.first_slice;  // as multiply_slices has advanced its copy
        see_through(ring);
        __syncthreads();  // all threads have finished this segment
    }
}
