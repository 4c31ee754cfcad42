// What a run does to whole arrays besides the kernels it measures: one pass each, compiled in a twentieth of the time
// that each of the ten small kernels takes which the same expressions of CuPy need.

// The finaliser of peakgate.measure.data: equal bits on every device.
static __device__ __forceinline__ unsigned int mixed(unsigned int bits)
{
    bits ^= bits >> 16;
    bits *= 0x7FEB352Du;
    bits ^= bits >> 15;
    bits *= 0x846CA68Bu;
    return bits ^ bits >> 16;
}

#define ROUNDS 27

// peakgate.measure.refill.enciphered: a block of two words.
static __device__ __forceinline__ void encipher(unsigned int& left, unsigned int& right, const unsigned int* keys)
{
#pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        left = (__funnelshift_r(left, left, 8) + right) ^ keys[round];
        right = __funnelshift_l(right, right, 3) ^ left;
    }
}

#if defined VALUE

// peakgate.measure.data._from_bits: the element of 32 random bits, as its own bits. All products and sums are exact.
static __device__ __forceinline__ VALUE from_bits(unsigned int bits)
{
#if defined INTEGER
    return (VALUE)bits;
#elif defined LONG_INTEGER || defined DOUBLE
    const unsigned long long words = (unsigned long long)bits << 32 | mixed(bits + 1);
#ifdef DOUBLE
    return (VALUE)__double_as_longlong((double)(words >> 11) * 0x1p-52 - 1.0);
#else
    return words;
#endif
#else
    const unsigned int wide = __float_as_uint((float)(bits >> 8) * 0x1p-23f - 1.0f);
#if defined BFLOAT16
    return (VALUE)(wide >> 16);
#elif defined HALF
    VALUE half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(__uint_as_float(wide & 0xFFFFE000u)));
    return half;
#else
    return wide;
#endif
#endif
}

// peakgate.measure.data.random_array: VALUE is an unsigned integer of the type's size.
extern "C" __global__ void fill(VALUE* values, unsigned long long count, unsigned int offset, const VALUE* specials)
{
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const unsigned int bits = mixed((unsigned int)i + offset), byte = mixed(bits + 2) >> 24;
        if (byte >= COPIED && byte < SPECIAL) {
            values[i] = specials[byte % (SPECIAL - COPIED)];
        } else {
            values[i] = from_bits(byte < COPIED ? mixed((unsigned int)i + offset - 1) : bits);
        }
    }
}

#elif defined MOST_FILLED

struct Filled {
    unsigned char* target;
    const unsigned char* pool;
    unsigned long long words;
    unsigned int chunks, shift, word_bytes, offset;
};

struct AllFilled {
    Filled buffers[MOST_FILLED];
};

template <typename Word>
static __device__ __forceinline__ void refill_one(const Filled& at)
{
    Word* const target = (Word*)at.target;
    const Word* const pool = (const Word*)at.pool;
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x, mask = (1ull << at.shift) - 1;
#pragma unroll 4
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < at.words; i += step) {
        const unsigned long long from = __umulhi(mixed((unsigned int)(i >> at.shift) + at.offset), at.chunks);
        target[i] = __ldg(pool + (from << at.shift) + (i & mask));
    }
}

// peakgate.measure.refill.fill of several buffers, blockIdx.y of them each: `target` in chunks of 2^shift words, each one
// of the pool's `chunks`.
extern "C" __global__ void refill(const AllFilled all)
{
    const Filled& at = all.buffers[blockIdx.y];
    switch (at.word_bytes) {
    case 1: refill_one<unsigned char>(at); break;
    case 2: refill_one<unsigned short>(at); break;
    case 4: refill_one<unsigned int>(at); break;
    case 8: refill_one<uint2>(at); break;
    default: refill_one<uint4>(at);
    }
}

#elif defined MOST_CHANGED

struct Changed {
    unsigned char* target;
    const unsigned char* pool;
    unsigned long long words;
    unsigned int pool_words, word_bytes, seed, unused;
};

struct AllChanged {
    Changed buffers[MOST_CHANGED];
    unsigned int keys[ROUNDS], unused;
};

// peakgate.measure.refill.change of several buffers, blockIdx.y of them each: in every page one word becomes one of the
// pool. One launch for all, since each kernel queued between two samples adds some 50 ns to the second.
extern "C" __global__ void change(const AllChanged all, unsigned int page_bytes)
{
    const Changed& at = all.buffers[blockIdx.y];
    const unsigned int per_page = page_bytes / at.word_bytes;
    const unsigned long long pages = (at.words + per_page - 1) / per_page, step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long page = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; page < pages; page += step) {
        const unsigned long long first = page * per_page;
        const unsigned int within = (unsigned int)min(at.words - first, (unsigned long long)per_page);
        unsigned int left = (unsigned int)page, right = at.seed;
        encipher(left, right, all.keys);
        const unsigned long long place = first + __umulhi(left, within), from = __umulhi(right, at.pool_words);
#define MOVE(WORD) ((WORD*)at.target)[place] = ((const WORD*)at.pool)[from]
        switch (at.word_bytes) {
        case 1: MOVE(unsigned char); break;
        case 2: MOVE(unsigned short); break;
        case 4: MOVE(unsigned int); break;
        case 8: MOVE(uint2); break;
        default: MOVE(uint4);
        }
    }
}

#elif defined EXCHANGED

static __device__ unsigned long long place(unsigned int part, unsigned long long count, unsigned long long parts,
                                           unsigned int seed, const unsigned int* keys)
{
    const unsigned long long begin = part * count / parts, end = (part + 1ull) * count / parts;
    unsigned int left = part, right = seed;
    encipher(left, right, keys);
    return begin + (left * (end - begin) >> 32);
}

// peakgate.measure.refill.exchange: pairs of words change places.
extern "C" __global__ void exchange(EXCHANGED* words, unsigned long long count, unsigned int pairs, unsigned int seed,
                                    const unsigned int* keys)
{
    for (unsigned int at = blockIdx.x * blockDim.x + threadIdx.x; at < pairs; at += gridDim.x * blockDim.x) {
        const unsigned long long one = place(at, count, 2ull * pairs, seed, keys);
        const unsigned long long other = place(at + pairs, count, 2ull * pairs, seed, keys);
        const EXCHANGED kept = words[one];
        words[one] = words[other];
        words[other] = kept;
    }
}

#elif defined DIFFERENCE

// report: how many bytes are left from the first one that differs, 0 if none does.
extern "C" __global__ void difference(const unsigned long long* one, const unsigned long long* other,
                                      unsigned long long bytes, unsigned long long* report)
{
    const unsigned long long words = bytes / 8, step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long at = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; at < words; at += step) {
        if (one[at] != other[at]) {
            atomicMax(report, bytes - 8 * at);
            break;
        }
    }
    const unsigned long long last = 8 * words + threadIdx.x;
    if (blockIdx.x == 0 && last < bytes && ((const char*)one)[last] != ((const char*)other)[last]) {
        atomicMax(report, bytes - last);
    }
}

#else

#define SIDE 32
#define AHEAD 4 // as many loads of a thread are under way at once
#define LARGEST(largest, value) largest = max(largest, (unsigned long long)__double_as_longlong(fabs(value)))

struct Largest {
    unsigned long long ratio, difference, reference, compared;
};

// |found - wanted| of one element, over its bound: absolute + relative * |wanted| + weighted * max(|wanted|, magnitude).
static __device__ void compare_one(Largest& largest, double found, double wanted, const double* magnitude,
                                   unsigned long long at, double absolute, double relative, double weighted)
{
    const double size = fabs(wanted);
    LARGEST(largest.reference, size);
    ++largest.compared;
    if (found == wanted) {
        return;
    }
    const double difference = fabs(found - wanted);
    const double bound = absolute + relative * size + weighted * fmax(size, magnitude ? magnitude[at] : 0.0);
    LARGEST(largest.ratio, difference / bound);
    LARGEST(largest.difference, difference);
}

// report: the largest ratio, |found - wanted| and |wanted| as the bits of a double, which order as their absolute values
// do, a NaN above all; then how many elements were compared. The strides are those of `wanted`, in elements; where its
// rows are neighbours in memory (a transposed view), tiles turn it in shared memory. `magnitude` has the order of
// `found`, or is null.
extern "C" __global__ void compare(const FOUND* found, const WANTED* wanted, const double* magnitude,
                                   unsigned long long rows, unsigned long long columns, long long row_stride,
                                   long long column_stride, double absolute, double relative, double weighted,
                                   unsigned long long* report)
{
    __shared__ WANTED turned[SIDE][SIDE + 1];
    __shared__ Largest warps[SIDE];
    Largest largest = {0, 0, 0, 0};
    if (rows == 1) {
        const unsigned long long step = (unsigned long long)gridDim.x * THREADS;
        for (unsigned long long first = (unsigned long long)blockIdx.x * THREADS + threadIdx.x; first < columns;
             first += AHEAD * step) {
            FOUND mine[AHEAD];
            WANTED its[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                const unsigned long long at = first + k * step;
                if (at < columns) {
                    mine[k] = found[at];
                    its[k] = wanted[(long long)at * column_stride];
                }
            }
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                const unsigned long long at = first + k * step;
                if (at < columns) {
                    compare_one(largest, (double)mine[k], (double)its[k], magnitude, at, absolute, relative, weighted);
                }
            }
        }
    } else {
        // 32 bits are enough for the tiles of what a memory holds; dividing 64 takes longer than comparing a tile.
        const unsigned int lane = threadIdx.x % SIDE, warp = threadIdx.x / SIDE, step = THREADS / SIDE;
        const unsigned int across = (columns + SIDE - 1) / SIDE, tiles = across * (unsigned int)((rows + SIDE - 1) / SIDE);
        for (unsigned int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const unsigned long long row = (unsigned long long)(tile / across) * SIDE;
            const unsigned long long column = (unsigned long long)(tile % across) * SIDE;
            FOUND mine[SIDE / step];
#pragma unroll
            for (int k = 0; k < SIDE / step; ++k) {
                const unsigned int at = warp + k * step;
                if (row + lane < rows && column + at < columns) {
                    turned[at][lane] = wanted[(long long)(row + lane) * row_stride + (long long)(column + at) * column_stride];
                }
                if (row + at < rows && column + lane < columns) {
                    mine[k] = found[(row + at) * columns + column + lane];
                }
            }
            __syncthreads();
#pragma unroll
            for (int k = 0; k < SIDE / step; ++k) {
                const unsigned int at = warp + k * step;
                if (row + at < rows && column + lane < columns) {
                    compare_one(largest, (double)mine[k], (double)turned[lane][at], magnitude,
                                (row + at) * columns + column + lane, absolute, relative, weighted);
                }
            }
            __syncthreads();
        }
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        largest.ratio = max(largest.ratio, __shfl_down_sync(0xFFFFFFFFu, largest.ratio, lanes));
        largest.difference = max(largest.difference, __shfl_down_sync(0xFFFFFFFFu, largest.difference, lanes));
        largest.reference = max(largest.reference, __shfl_down_sync(0xFFFFFFFFu, largest.reference, lanes));
        largest.compared += __shfl_down_sync(0xFFFFFFFFu, largest.compared, lanes);
    }
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = largest;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < THREADS / 32; ++warp) {
            largest.ratio = max(largest.ratio, warps[warp].ratio);
            largest.difference = max(largest.difference, warps[warp].difference);
            largest.reference = max(largest.reference, warps[warp].reference);
            largest.compared += warps[warp].compared;
        }
        atomicMax(report, largest.ratio);
        atomicMax(report + 1, largest.difference);
        atomicMax(report + 2, largest.reference);
        atomicAdd(report + 3, largest.compared);
    }
}

#endif
