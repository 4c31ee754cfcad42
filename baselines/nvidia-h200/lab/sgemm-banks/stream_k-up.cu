#define WRITE_AFTER 1
#define WRITE_STEP 1
// stream_k: every block gets the same amount of work, to within one slice of k, whatever the shape of C.
//
// Against barrier_ring: 1536 x 1536 is 72 tiles of 128 x 256 for 132 SMs, 3072 x 3072 is 288: two waves and a fifth,
// paid as three. Here the grid is as many blocks as SMs, and each takes tiles until none is left. The first tiles, one
// to two for each block, are laid end to end along k and cut into equal ranges; a block multiplies the range that is
// its own, which may end inside one tile and begin inside another. The remaining tiles are dealt out whole.
// A tile that was cut is put together by the block that holds its last slice. The others leave their sums in device
// memory and raise a flag. A block goes through its range backwards: the piece that others need is made first, the
// piece that needs others last, so that hardly anybody waits.
// A block waits only for blocks with a lower number, and takes its number when it starts: those it waits for are
// running or done, so the wait ends however few blocks the GPU runs at once. Sums are added in the order of the
// numbers: results repeat bit by bit. Flags and counter are back at zero at the end, ready for the next launch.
//
// Launch: THREADS threads, any number of blocks in x, dynamic shared memory SLOTS * FLOATS_OF_SLOT * 4 bytes.
// `partial` has room for TILE_ROWS * TILE_COLS floats a block, `flags` for one unsigned a block and one more; both are
// zero before the first launch.
// Slices of k for ring_loop.cuh, spelled for the banks of the register file: barrier_ring and stream_k.
//
// ptxas assigns the registers, and CUDA C++ has no say in it. What a multiply-add costs depends on it all the same: the
// register file has two banks, even and odd registers, and one that reads two registers of the same bank takes a cycle
// more. So this is spelled as ptxas makes the fewest of those, and the fewest other instructions:
// - A slot is an offset in bytes from addresses that stay the same, not a pointer of its own. All threads have the same
//   offset: shared memory is read and written at [register + uniform register + constant].
// - A thread's float4 of B are in one row: one pointer for all.
// - Loads from device memory are predicated instead of branched around: the loop is two basic blocks, not five.
// - Fragments of B are read before those of A.
// What each spelling gave is in baselines/nvidia-h200/lab/sgemm-banks.
// A block's tile of C over a range of k, fed by a ring of slots: barrier_ring, group_split and stream_k share it. They
// differ in which tile and which k a block takes, and in where its sums go. The loop over k is in ring_loop.cuh.
//
// A slice is SLICE_DEPTH values of k: a tile of A, turned around, and a tile of B. A slot holds one slice and the
// barrier that says it is there. While slice n is multiplied, slice n + 2 is written to its slot and slice n + 3 is on
// its way to registers. A thread arrives as soon as it has written its part and waits two slices later, when the others
// have long arrived: nobody stands at a barrier, and warps may drift apart by most of a slice.
// The same barrier frees the slots. Who has seen slice n complete knows that everybody has begun slice n - 2, and so is
// done reading slice n - 3. Slice n + 2 takes the slot of slice n + 2 - SLOTS, which is no later than n - 3.
//
// Multiply-adds run down one column of a thread's sums and up the next: each takes one new operand and finds the other
// in the operand cache, so that it reads two registers, its sum and the new operand. The two banks of the register file
// deliver two a cycle. Were every column to begin at the top, one multiply-add in eight would need three.
// A barrier in two halves (mbarrier, compute capability 8.0 and up): a thread that has done its part arrives and goes
// on with something else; it waits only where it needs what the others did.
//
// SplitBarrier                            lies in shared memory, 8-byte aligned
// split_barrier_init(barrier, threads)    by one thread, before a __syncthreads() that all threads pass: every round
//                                         takes an arrival of each of `threads` threads
// split_barrier_arrive(barrier)           the calling thread's part of the current round is done
// split_barrier_wait(barrier, round)      returns once round `round` (0, 1, ...) is complete; what the others wrote to
//                                         shared memory before they arrived can then be read
// split_barrier_retire(barrier)           by one thread, when nobody uses the barrier any more: its memory may then
//                                         hold something else
//
// A wait looks at the lowest bit of `round` only, so nobody may arrive for a round before having waited for the one
// before it. Every thread arrives for itself: one arrival a warp would be enough for the memory model, but the
// race checker of the CUDA toolkit does not follow that chain, and it is not faster.


#ifdef PEAKGATE_EMULATED

// A wait is a whole barrier of the block there, which is stronger than what it stands for. That all have arrived is
// checked, and that nobody arrives for a round before having waited for the one before.
struct alignas(8) SplitBarrier {
    unsigned arrivals;
    unsigned waits;
};

inline unsigned split_barrier_threads() {
    return blockDim.x * blockDim.y * blockDim.z;
}

inline void split_barrier_init(SplitBarrier* barrier, unsigned threads) {
    assert(threads == split_barrier_threads());
    *barrier = {0, 0};
}

inline void split_barrier_arrive(SplitBarrier* barrier) {
    // Of the others each may have arrived once more than it has waited; the calling thread may not.
    assert(atomicAdd(&barrier->arrivals, 1u) < atomicAdd(&barrier->waits, 0u) + split_barrier_threads());
}

inline void split_barrier_wait(SplitBarrier* barrier, unsigned round) {
    __syncthreads();
    assert(atomicAdd(&barrier->arrivals, 0u) / split_barrier_threads() == round + 1);
    atomicAdd(&barrier->waits, 1u);
}

inline void split_barrier_retire(SplitBarrier*) {}

#else

using SplitBarrier = unsigned long long;

__device__ __forceinline__ unsigned split_barrier_address(SplitBarrier* barrier) {
    return static_cast<unsigned>(__cvta_generic_to_shared(barrier));
}

__device__ __forceinline__ void split_barrier_init(SplitBarrier* barrier, unsigned threads) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(split_barrier_address(barrier)), "r"(threads) : "memory");
}

__device__ __forceinline__ void split_barrier_arrive(SplitBarrier* barrier) {
    // The state that sm_80 insists on returning is not needed: a wait by parity asks for none.
    asm volatile("{\n"
                 ".reg .b64 state;\n"
                 "mbarrier.arrive.shared.b64 state, [%0];\n"
                 "}"
                 :
                 : "r"(split_barrier_address(barrier))
                 : "memory");
}

__device__ __forceinline__ void split_barrier_wait(SplitBarrier* barrier, unsigned round) {
#if __CUDA_ARCH__ >= 900
#define PEAKGATE_WAIT "mbarrier.try_wait.parity.shared.b64"  // lets the hardware put the thread to sleep
#else
#define PEAKGATE_WAIT "mbarrier.test_wait.parity.shared.b64"
#endif
    asm volatile("{\n"
                 ".reg .pred complete;\n"
                 "again:\n" PEAKGATE_WAIT " complete, [%0], %1;\n"
                 "@!complete bra again;\n"
                 "}"
                 :
                 : "r"(split_barrier_address(barrier)), "r"(round & 1)
                 : "memory");
#undef PEAKGATE_WAIT
}

__device__ __forceinline__ void split_barrier_retire(SplitBarrier* barrier) {
    asm volatile("mbarrier.inval.shared.b64 [%0];" : : "r"(split_barrier_address(barrier)) : "memory");
}

#endif

// How every stage of the ladder touches a matrix at its edge, and how it moves four floats at a time.
//
// A matrix is row-major, rows x cols. What lies outside it reads as zero, which adds nothing to a sum of products, and
// is never written. Offsets are size_t: rows * cols passes 2^31 from 46341 x 46341 on.


__device__ __forceinline__ size_t offset_of(int row, int col, int cols) {
    return static_cast<size_t>(row) * cols + col;
}

__device__ __forceinline__ float load(const float* matrix, int row, int col, int rows, int cols) {
    return row < rows && col < cols ? matrix[offset_of(row, col, cols)] : 0.0f;
}

__device__ __forceinline__ void store(float* matrix, int row, int col, int rows, int cols, float value) {
    if (row < rows && col < cols) {
        matrix[offset_of(row, col, cols)] = value;
    }
}

// Four floats that lie side by side, 16-byte aligned.
__device__ __forceinline__ float4 read4(const float* from) {
    return *reinterpret_cast<const float4*>(from);
}

__device__ __forceinline__ void write4(float* to, float4 value) {
    *reinterpret_cast<float4*>(to) = value;
}

// The four floats if they are wanted, else no change. Inline PTX, for a predicate instead of the branch that ptxas
// sometimes makes of an `if`.
__device__ __forceinline__ void read4_if(bool wanted, float4& into, const float* from) {
#ifdef PEAKGATE_EMULATED
    if (wanted) {
        into = read4(from);
    }
#else
    asm volatile("{\n"
                 ".reg .pred wanted;\n"
                 "setp.gt.s32 wanted, %5, 0;\n"
                 "@wanted ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];\n"
                 "}"
                 : "+f"(into.x), "+f"(into.y), "+f"(into.z), "+f"(into.w)
                 : "l"(from), "r"(static_cast<int>(wanted)));
#endif
}

__device__ __forceinline__ void unpack(float4 value, float* to) {
    to[0] = value.x;
    to[1] = value.y;
    to[2] = value.z;
    to[3] = value.w;
}

__device__ __forceinline__ float4 pack(const float* from) {
    return make_float4(from[0], from[1], from[2], from[3]);
}

// Elements (row, col) to (row, col + 3), col a multiple of 4. While cols % 4 == 0 they are either all inside or all
// outside and may travel as one float4. Where it is not, rows begin at addresses a float4 must not be loaded from, and
// each element goes alone. Blocks whose tiles lie inside the matrices have no need to ask: they read4 in their loop.
__device__ __forceinline__ float4 load4(const float* matrix, int row, int col, int rows, int cols) {
    if (cols % 4 == 0) {
        const bool inside = row < rows && col < cols;
        return inside ? read4(matrix + offset_of(row, col, cols)) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    return make_float4(load(matrix, row, col, rows, cols), load(matrix, row, col + 1, rows, cols),
                       load(matrix, row, col + 2, rows, cols), load(matrix, row, col + 3, rows, cols));
}

__device__ __forceinline__ void store4(float* matrix, int row, int col, int rows, int cols, float4 value) {
    if (cols % 4 == 0) {
        if (row < rows && col < cols) {
            write4(matrix + offset_of(row, col, cols), value);
        }
    } else {
        store(matrix, row, col, rows, cols, value.x);
        store(matrix, row, col + 1, rows, cols, value.y);
        store(matrix, row, col + 2, rows, cols, value.z);
        store(matrix, row, col + 3, rows, cols, value.w);
    }
}


#ifndef THREAD_ROWS
#define THREAD_ROWS 8
#endif
#ifndef THREAD_COLS
#define THREAD_COLS 16
#endif
#ifndef WARPS_DOWN
#define WARPS_DOWN 4
#endif
#ifndef WARPS_ACROSS
#define WARPS_ACROSS 2
#endif
#ifndef K_GROUPS
#define K_GROUPS 1
#endif
#ifndef GROUP_DEPTH
#define GROUP_DEPTH 8
#endif
#define SLOTS 8
#define LANES_DOWN 4
#define LANES_ACROSS 8
#define GROUP_WARPS (WARPS_DOWN * WARPS_ACROSS)
#define THREADS (32 * GROUP_WARPS * K_GROUPS)
#define TILE_ROWS (THREAD_ROWS * LANES_DOWN * WARPS_DOWN)
#define TILE_COLS (THREAD_COLS * LANES_ACROSS * WARPS_ACROSS)
#define SLICE_DEPTH (GROUP_DEPTH * K_GROUPS)
#define PITCH_OF_A (TILE_ROWS + 4)
#define FLOATS_OF_A (SLICE_DEPTH * PITCH_OF_A)
#define FLOATS_OF_B (SLICE_DEPTH * TILE_COLS)
#define FLOATS_OF_SLOT (FLOATS_OF_A + FLOATS_OF_B + 4)
#define ROW_STEP (4 * LANES_DOWN)
#define COL_STEP (4 * LANES_ACROSS)
#define QUADS_OF_A (TILE_ROWS * SLICE_DEPTH / 4)
#define QUADS_OF_B (SLICE_DEPTH * TILE_COLS / 4)
#define LOADS_OF_A (QUADS_OF_A / THREADS)
#define LOADS_OF_B (QUADS_OF_B / THREADS)

static_assert(THREAD_ROWS % 4 == 0 && THREAD_COLS % 4 == 0, "fragments are read as float4");
static_assert(QUADS_OF_A % THREADS == 0 && QUADS_OF_B % THREADS == 0, "the threads load a slice as whole float4");
static_assert(GROUP_DEPTH % 2 == 0, "fragments alternate between two sets of registers across slices");
static_assert(SLOTS >= 5 && (SLOTS & (SLOTS - 1)) == 0, "slice n + 2 takes a slot that slice n - 3 has left");

using Sums = float[THREAD_ROWS][THREAD_COLS];

// Where a thread's sums lie in the block's tile. Sum (i, j) is element (row + i / 4 * ROW_STEP + i % 4,
// col + j / 4 * COL_STEP + j % 4). The eight lanes that shared memory serves together read eight neighbouring float4
// of B and one of A.
struct Place {
    int row;
    int col;
    int group;  // which of the K_GROUPS shares of a slice the thread's warp multiplies
};

__device__ __forceinline__ Place place_of(int thread) {
    const int lane = thread % 32;
    const int warp = thread / 32 % GROUP_WARPS;
    return {warp % WARPS_DOWN * (THREAD_ROWS * LANES_DOWN) + lane / LANES_ACROSS * 4,
            warp / WARPS_DOWN * (THREAD_COLS * LANES_ACROSS) + lane % LANES_ACROSS * 4, thread / 32 / GROUP_WARPS};
}

// A ring of slots in shared memory; `slice` counts the slices that have gone round.
struct Ring {
    float* memory;
    unsigned slice;

    // The slot of the slice that comes `ahead` slices after the next one.
    __device__ __forceinline__ float* slot(unsigned ahead) const {
        return memory + (slice + ahead) % SLOTS * FLOATS_OF_SLOT;
    }
    __device__ __forceinline__ SplitBarrier* barrier(unsigned ahead) const {
        return reinterpret_cast<SplitBarrier*>(slot(ahead) + FLOATS_OF_A + FLOATS_OF_B);
    }
};

// Every thread of the block calls it, once.
__device__ __forceinline__ Ring new_ring(float* memory) {
    const Ring ring = {memory, 0};
    if (threadIdx.x < SLOTS) {
        split_barrier_init(ring.barrier(threadIdx.x), THREADS);
    }
    __syncthreads();
    return ring;
}

// What is left of a ring is plain shared memory. Every thread of the block calls it, once.
__device__ __forceinline__ float* retired(const Ring& ring) {
    __syncthreads();
    if (threadIdx.x < SLOTS) {
        split_barrier_retire(ring.barrier(threadIdx.x));
    }
    __syncthreads();
    return ring.memory;
}

// In bytes and computed at each use: one multiply-add of addresses, and no register that holds the step.
__device__ __forceinline__ const float* next_slice_of_b(const float* from, int N) {
    return reinterpret_cast<const float*>(reinterpret_cast<const char*>(from) +
                                          static_cast<long long>(N) * (4 * SLICE_DEPTH));
}

// Four k of one row of A, turned: one below the other.
__device__ __forceinline__ void write_column(float* to, float4 piece) {
    to[0 * PITCH_OF_A] = piece.x;
    to[1 * PITCH_OF_A] = piece.y;
    to[2 * PITCH_OF_A] = piece.z;
    to[3 * PITCH_OF_A] = piece.w;
}

// The thread's fragments of a row of a slice.
__device__ __forceinline__ void read_a(const float* from, float* into) {
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; i += 4) {
        unpack(read4(from + i / 4 * ROW_STEP), into + i);
    }
}

__device__ __forceinline__ void read_b(const float* from, float* into) {
#pragma unroll
    for (int j = 0; j < THREAD_COLS; j += 4) {
        unpack(read4(from + j / 4 * COL_STEP), into + j);
    }
}

// Every round of a barrier is seen through before the next one begins: between two calls of multiply_slices, everybody
// waits for the two slots past the last slice that were filled as well, with whatever was at hand, and never read.
__device__ __forceinline__ void see_through(Ring& ring) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        split_barrier_wait(ring.barrier(0), ring.slice / SLOTS);
        ++ring.slice;
    }
}

// Four sums on their way out. A float4 store takes four neighbouring registers; adding zero gives the values registers
// of their own, so that the sums may lie in whatever banks serve the loop best.
__device__ __forceinline__ float4 detached(const float* sums) {
    return make_float4(sums[0] + 0.0f, sums[1] + 0.0f, sums[2] + 0.0f, sums[3] + 0.0f);
}

__device__ __forceinline__ void store_sums(const Sums& sum, float* __restrict__ C, int M, int N, int first_row,
                                           int first_col) {
    const Place place = place_of(threadIdx.x);
#pragma unroll
    for (int i = 0; i < THREAD_ROWS; ++i) {
        const int row = first_row + place.row + i / 4 * ROW_STEP + i % 4;
#pragma unroll
        for (int j = 0; j < THREAD_COLS; j += 4) {
            store4(C, row, first_col + place.col + j / 4 * COL_STEP, M, N, detached(&sum[i][j]));
        }
    }
}

__device__ __forceinline__ bool is_whole(int M, int N, int K, int first_row, int first_col) {
    return first_row + TILE_ROWS <= M && first_col + TILE_COLS <= N && K % SLICE_DEPTH == 0 && N % 4 == 0;
}


#define THREADS_OF_ROW (THREADS / SLICE_DEPTH)

static_assert(THREADS % SLICE_DEPTH == 0, "a thread loads from one row");
static_assert(LOADS_OF_B * THREADS_OF_ROW * 4 == TILE_COLS, "its threads load a row");
static_assert(LOADS_OF_A == 1, "one float4 of A per thread");
static_assert(K_GROUPS == 1, "every warp sums over all of k");

// WHOLE: the tile lies inside C, K is a multiple of SLICE_DEPTH and rows of B are 16-byte aligned.
template <bool WHOLE>
struct OffsetSlices {
    const Ring& ring;
    const float* __restrict__ A;
    const float* __restrict__ B;
    int M, N, K, first_row, first_col, first_k;
    int thread, row_of_a, k_of_a, k_of_b;
    const float* from_a;
    const float* from_b;
    char* memory;
    char* to_a;
    char* to_b;
    const char* fragments_of_a;
    const char* fragments_of_b;
    float4 next_a = {};
    float4 next_b[LOADS_OF_B] = {};

    __device__ __forceinline__ OffsetSlices(const Ring& ring, const float* __restrict__ A, const float* __restrict__ B,
                                            int M, int N, int K, int first_row, int first_col, int first_k)
        : ring(ring), A(A), B(B), M(M), N(N), K(K), first_row(first_row), first_col(first_col), first_k(first_k) {
        thread = threadIdx.x;
        // Two threads take the two float4 of a 32-byte sector of A, the next two those of the next row.
        row_of_a = thread / 2 % TILE_ROWS;
        k_of_a = (thread / 2 / TILE_ROWS * 2 + thread % 2) * 4;
        k_of_b = thread / THREADS_OF_ROW;
        from_a = A + offset_of(first_row + row_of_a, first_k + k_of_a, K);
        from_b = B + offset_of(first_k + k_of_b, first_col + col_of_b(0), N);

        const Place place = place_of(thread);
        memory = reinterpret_cast<char*>(ring.memory);
        to_a = memory + 4 * (k_of_a * PITCH_OF_A + row_of_a);
        to_b = memory + 4 * (FLOATS_OF_A + k_of_b * TILE_COLS + col_of_b(0));
        fragments_of_a = memory + 4 * place.row;
        fragments_of_b = memory + 4 * (FLOATS_OF_A + place.col);
    }

    // Not the column of load 0 and a step for the others: from that ptxas makes 39 conflicts a round more.
    __device__ __forceinline__ int col_of_b(int n) const {
        return (thread % THREADS_OF_ROW + n * THREADS_OF_ROW) * 4;
    }

    // Where the slot of the slice that comes `ahead` slices after the next one begins, in bytes.
    __device__ __forceinline__ unsigned slot(unsigned ahead) const {
        return (ring.slice + ahead) % SLOTS * (4 * FLOATS_OF_SLOT);
    }
    __device__ __forceinline__ SplitBarrier* barrier(unsigned ahead) const {
        return reinterpret_cast<SplitBarrier*>(memory + 4 * (FLOATS_OF_A + FLOATS_OF_B) + slot(ahead));
    }

    // Fetching asks for one slice after the other. At the edges of the matrices, where a load is guarded and takes many
    // registers, nothing is fetched ahead.
    __device__ __forceinline__ void fetch_a(bool wanted) {
        if (WHOLE) {
            read4_if(wanted, next_a, from_a);
        }
        from_a += SLICE_DEPTH;
    }
    __device__ __forceinline__ void fetch_b(int n, bool wanted) {
        if (WHOLE) {
            read4_if(wanted, next_b[n], from_b + n * 4 * THREADS_OF_ROW);
        }
        if (n + 1 == LOADS_OF_B) {
            from_b = next_slice_of_b(from_b, N);
        }
    }
    __device__ __forceinline__ void write_a(unsigned slot, int slice) const {
        const int k = first_k + slice * SLICE_DEPTH + k_of_a;
        const float4 piece = WHOLE ? next_a : load4(A, first_row + row_of_a, k, M, K);
        write_column(reinterpret_cast<float*>(to_a + slot), piece);
    }
    __device__ __forceinline__ void write_b(int n, unsigned slot, int slice) const {
        const int k = first_k + slice * SLICE_DEPTH + k_of_b;
        const float4 piece = WHOLE ? next_b[n] : load4(B, k, first_col + col_of_b(n), K, N);
        write4(reinterpret_cast<float*>(to_b + slot) + n * 4 * THREADS_OF_ROW, piece);
    }
    __device__ __forceinline__ void read(unsigned slot, int k, float* a, float* b) const {
        read_b(reinterpret_cast<const float*>(fragments_of_b + slot) + k * TILE_COLS, b);
        read_a(reinterpret_cast<const float*>(fragments_of_a + slot) + k * PITCH_OF_A, a);
    }
};

// In which order blocks take the tiles of C.


#define RASTER_ROWS 8

struct TileIndex {
    int row;
    int col;
};

// Tile number `tile` of tiles_down x tiles_across, in bands of RASTER_ROWS rows of tiles, each band column by column:
// the blocks that run at one time then need few rows of A and few columns of B, and find most of them in L2.
__device__ __forceinline__ TileIndex raster(int tile, int tiles_down, int tiles_across) {
    const int tiles_of_band = RASTER_ROWS * tiles_across;
    const int band = tile / tiles_of_band;
    const int inside = tile % tiles_of_band;
    const int rows_of_band = min(RASTER_ROWS, tiles_down - band * RASTER_ROWS);
    return {band * RASTER_ROWS + inside % rows_of_band, inside / rows_of_band};
}

// The loop over k of a tile: which slice is fetched, written, read and multiplied when.
//
// `Slices` is where slices come from and how they get into the ring and out of it. There are two, with the same
// members: offset_slices.cuh for barrier_ring and stream_k, pointer_slices.cuh for group_split.


// After which k of a slice the next one is written: first A, then each float4 of B of a thread WRITE_STEP k later.
#ifndef WRITE_AFTER
#define WRITE_AFTER 0
#endif
#ifndef WRITE_STEP
#define WRITE_STEP 0
#endif

static_assert(WRITE_AFTER + (LOADS_OF_B - 1) * WRITE_STEP + 1 < GROUP_DEPTH, "a slice is written within one round");

__device__ __forceinline__ void multiply(Sums& sum, const float (&a)[THREAD_ROWS], const float (&b)[THREAD_COLS]) {
#pragma unroll
    for (int j = 0; j < THREAD_COLS; ++j) {
#pragma unroll
        for (int n = 0; n < THREAD_ROWS; ++n) {
            const int i = j % 2 ? n : THREAD_ROWS - 1 - n;
            sum[i][j] += a[i] * b[j];
        }
    }
}

// Adds to the sums the products of the next `slices` slices (at least 1).
template <class Slices>
__device__ __forceinline__ void multiply_slices(Sums& sum, Ring& ring, Slices from, int slices) {
    float a[2][THREAD_ROWS] = {};
    float b[2][THREAD_COLS] = {};

#pragma unroll
    for (int slice = 0; slice < 2; ++slice) {
        from.fetch_a(slice < slices);
#pragma unroll
        for (int n = 0; n < LOADS_OF_B; ++n) {
            from.fetch_b(n, slice < slices);
        }
        from.write_a(from.slot(slice), slice);
#pragma unroll
        for (int n = 0; n < LOADS_OF_B; ++n) {
            from.write_b(n, from.slot(slice), slice);
        }
        split_barrier_arrive(from.barrier(slice));
    }
    from.fetch_a(2 < slices);
#pragma unroll
    for (int n = 0; n < LOADS_OF_B; ++n) {
        from.fetch_b(n, 2 < slices);
    }

    // A round multiplies the last k of the slice before (zeros in the first round) while the first fragments of its own
    // slice arrive, then all but its last k.
    int slice = 0;
    int unfetched = slices - 3;  // -3 after the last round
#pragma unroll 1
    do {
        const auto slot = from.slot(0);
        const auto later_slot = from.slot(2);
        split_barrier_wait(from.barrier(0), ring.slice / SLOTS);
        from.read(slot, 0, a[0], b[0]);
        multiply(sum, a[(GROUP_DEPTH - 1) % 2], b[(GROUP_DEPTH - 1) % 2]);
#pragma unroll
        for (int k = 0; k + 1 < GROUP_DEPTH; ++k) {
            from.read(slot, k + 1, a[(k + 1) % 2], b[(k + 1) % 2]);
            multiply(sum, a[k % 2], b[k % 2]);
            if (k == WRITE_AFTER) {
                from.write_a(later_slot, slice + 2);
                from.fetch_a(unfetched > 0);
            }
#pragma unroll
            for (int n = 0; n < LOADS_OF_B; ++n) {
                // Not k == WRITE_AFTER + n * WRITE_STEP: for sm_100 NVRTC 13.4 then keeps a and b in memory.
                if (k - n * WRITE_STEP == WRITE_AFTER) {
                    from.write_b(n, later_slot, slice + 2);
                    from.fetch_b(n, unfetched > 0);
                }
            }
            if (k == WRITE_AFTER + (LOADS_OF_B - 1) * WRITE_STEP) {
                split_barrier_arrive(from.barrier(2));
            }
        }
        ++ring.slice;
        ++slice;
    } while (--unfetched > -3);
    multiply(sum, a[(GROUP_DEPTH - 1) % 2], b[(GROUP_DEPTH - 1) % 2]);
}


// The ranges of the blocks in `units` slices: block n has first_unit(n) to first_unit(n + 1).
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

// What a block is at and what is left for it. In shared memory, written by one thread: between two segments it is read
// rarely, and every register it took would be one less for the sums.
struct Work {
    int block;
    int begin;  // the rest of the block's range
    int end;
    int whole_tile;
    bool done;
    int first_row;  // the segment being made: its tile, and its slices of k
    int first_col;
    int tile;
    int first_slice;
    int end_slice;
};

// Numbers 0, 1, ... in the order in which blocks start; the last one to start sets the counter back.
__device__ __forceinline__ int take_number(unsigned* counter) {
    const int number = static_cast<int>(atomicAdd(counter, 1u));
    if (number + 1 == static_cast<int>(gridDim.x)) {
        atomicExch(counter, 0u);
    }
    return number;
}

// Takes the last segment of the range, or a whole tile when the range is used up, and says when nothing is left.
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

// Adds what the blocks from `first` up to `block` left of the tile whose last slice `block` holds. Blocks without a
// range, as there are when slices are fewer than blocks, left nothing.
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

// Makes the segment that `work` describes.
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
        ring.slice += work.end_slice - work.first_slice;  // as multiply_slices has moved its copy on
        see_through(ring);
        __syncthreads();  // everybody is done with this segment
    }
}
