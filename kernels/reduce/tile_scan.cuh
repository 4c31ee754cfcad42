// The inclusive scan of a tile of integers in registers, and how tiles communicate through global memory.
//
// A tile is BLOCK * VECTORS int4. Each warp has a contiguous part of it, and each lane every 32nd int4 of that part:
// loads and stores are whole lines, and no element moves to another thread.
#pragma once

#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef VECTORS
#define VECTORS 4
#endif

constexpr int WARPS = BLOCK / 32;
constexpr int TILE = BLOCK * VECTORS * 4;

// The state of a tile in one word, so that it is read and written at once: the state that it has published in this
// launch, in bits above the number itself.
using TileState = unsigned long long;
constexpr unsigned SUM_OF_TILE = 1, SUM_TO_TILE = 2, STATES = 3;

// Blocks draw tickets from a counter in global memory that is never reset. So tiles are taken in their order, whichever
// block starts first, and a tile waits only for blocks that are running; and each launch has a number of its own, so
// that the states of the launch before need not be cleared.
struct Ticket {
    unsigned tile, launch;
};

// One of the `drawn` tickets that a launch draws.
__device__ __forceinline__ Ticket next_ticket(unsigned long long* tickets, unsigned drawn) {
    const unsigned long long ticket = atomicAdd(tickets, 1ull);
    return {static_cast<unsigned>(ticket % drawn), static_cast<unsigned>(ticket / drawn) * STATES};
}

// The only ticket of this block. All its threads have to call it, once.
__device__ __forceinline__ Ticket draw_ticket(unsigned long long* tickets) {
    __shared__ Ticket drawn;
    if (threadIdx.x == 0) {
        drawn = next_ticket(tickets, gridDim.x);
    }
    __syncthreads();
    return drawn;
}

__device__ __forceinline__ void publish(volatile TileState* state, unsigned kind, unsigned launch, int sum) {
    *state = static_cast<TileState>(launch + kind) << 32 | static_cast<unsigned>(sum);
}

// What a tile has published in this launch; 0 if nothing.
__device__ __forceinline__ unsigned kind_of(TileState state, unsigned launch) {
    const unsigned kind = static_cast<unsigned>(state >> 32) - launch;
    return kind < STATES ? kind : 0;
}

struct TileScan {
    int4 values[VECTORS];  // of this thread, scanned within the warp's part
    int before;            // sum of what precedes that part in the tile
    int sum;               // of the tile
};

__device__ __forceinline__ int scanned_lanes(int own) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const int left = __shfl_up_sync(0xffffffffu, own, distance);
        own += lane >= distance ? left : 0;
    }
    return own;
}

// Whether the array does not end inside the tile.
__device__ __forceinline__ bool is_whole(unsigned tile, size_t n) {
    return static_cast<size_t>(tile + 1) * TILE <= n;
}

// The element of the array at which this thread's vector k begins.
__device__ __forceinline__ size_t place_of(unsigned tile, int k) {
    return static_cast<size_t>(tile) * TILE + ((threadIdx.x / 32 * VECTORS + k) * 32 + threadIdx.x % 32) * 4;
}

__device__ __forceinline__ int4 load_four(const int* __restrict__ in, size_t i, size_t n) {
    if (i + 4 <= n) {
        return __ldcs(reinterpret_cast<const int4*>(in + i));
    }
    return make_int4(i < n ? in[i] : 0, i + 1 < n ? in[i + 1] : 0, i + 2 < n ? in[i + 2] : 0, 0);
}

__device__ __forceinline__ void store_four(int* __restrict__ out, size_t i, size_t n, int4 value) {
    if (i + 4 <= n) {
        __stcs(reinterpret_cast<int4*>(out + i), value);
        return;
    }
    if (i < n) {
        out[i] = value.x;
    }
    if (i + 1 < n) {
        out[i + 1] = value.y;
    }
    if (i + 2 < n) {
        out[i + 2] = value.z;
    }
}

// Scans the elements of a warp, vector after vector; returns their sum. All lanes of the warp have to call it.
__device__ __forceinline__ int scan_part(int4 (&values)[VECTORS]) {
    int of_warp = 0;
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        int4& value = values[k];
        value.y += value.x;
        value.z += value.y;
        value.w += value.z;
        const int scanned = scanned_lanes(value.w);
        const int before = of_warp + scanned - value.w;
        value = make_int4(value.x + before, value.y + before, value.z + before, value.w + before);
        of_warp += __shfl_sync(0xffffffffu, scanned, 31);
    }
    return of_warp;
}

// All threads of a block have to call it, once.
__device__ __forceinline__ TileScan scan_tile(const int* __restrict__ in, unsigned tile, size_t n) {
    __shared__ int of_warps[WARPS];
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    TileScan scan;
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        scan.values[k] = load_four(in, place_of(tile, k), n);
    }
    const int of_warp = scan_part(scan.values);
    if (lane == 0) {
        of_warps[warp] = of_warp;
    }
    __syncthreads();
    const int scanned = scanned_lanes(lane < WARPS ? of_warps[lane] : 0);
    scan.sum = __shfl_sync(0xffffffffu, scanned, 31);
    scan.before = __shfl_sync(0xffffffffu, scanned, warp) - of_warp;
    return scan;
}

// Adds `add`, the sum of all elements before it, to this warp's part of the tile and stores it. The array does not end
// inside a WHOLE tile.
template <bool WHOLE>
__device__ __forceinline__ void store_part(int* __restrict__ out, const int4 (&values)[VECTORS], int add, unsigned tile,
                                           size_t n) {
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        const int4 value = values[k];
        const int4 sums = make_int4(value.x + add, value.y + add, value.z + add, value.w + add);
        if (WHOLE) {
            __stcs(reinterpret_cast<int4*>(out + place_of(tile, k)), sums);
        } else {
            store_four(out, place_of(tile, k), n, sums);
        }
    }
}

// Stores the tile; `before` is the sum of all elements before it.
__device__ __forceinline__ void store_tile(int* __restrict__ out, const TileScan& scan, int before, unsigned tile,
                                           size_t n) {
    store_part<false>(out, scan.values, before + scan.before, tile, n);
}
