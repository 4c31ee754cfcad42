// What a run does to whole arrays besides the kernels it measures: one pass each, compiled in a twentieth of the time
// that each of the ten small kernels takes which the same expressions of CuPy need.

#ifdef VALUE

// The finaliser of peakgate.measure.data: equal bits on every device.
extern "C" __global__ void fill(VALUE* values, unsigned long long count, unsigned int offset)
{
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        unsigned int bits = (unsigned int)i + offset;
        bits ^= bits >> 16;
        bits *= 0x7FEB352Du;
        bits ^= bits >> 15;
        bits *= 0x846CA68Bu;
        bits ^= bits >> 16;
#ifdef UNUSED_BITS
        // The product is exact, so one fused operation rounds as two do.
        values[i] = (VALUE)(bits >> UNUSED_BITS) * (VALUE)UNIT - (VALUE)1;
#else
        values[i] = (VALUE)bits;
#endif
    }
}

#else

#define SIDE 32
#define LARGEST(largest, value) largest = max(largest, (unsigned long long)__double_as_longlong(fabs(value)))

// report[0]: the largest |found - wanted|, report[1]: the largest |wanted|, both as the bits of a double, which order
// as their absolute values do, a NaN above all; report[2]: how many elements were compared. The strides are those of
// `wanted`, in elements; where its rows are neighbours in memory (a transposed view), tiles turn it in shared memory.
extern "C" __global__ void compare(const FOUND* found, const WANTED* wanted, unsigned long long rows,
                                   unsigned long long columns, long long row_stride, long long column_stride,
                                   unsigned long long* report)
{
    __shared__ WANTED turned[SIDE][SIDE + 1];
    __shared__ unsigned long long warps[3][SIDE];
    unsigned long long difference = 0, size = 0, compared = 0;
    if (rows == 1) {
        const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
        for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < columns; i += step) {
            const double expected = (double)wanted[(long long)i * column_stride];
            LARGEST(difference, (double)found[i] - expected);
            LARGEST(size, expected);
            ++compared;
        }
    } else {
        const unsigned int lane = threadIdx.x % SIDE, warp = threadIdx.x / SIDE, step = blockDim.x / SIDE;
        const unsigned long long across = (columns + SIDE - 1) / SIDE, tiles = across * ((rows + SIDE - 1) / SIDE);
        for (unsigned long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const unsigned long long row = tile / across * SIDE, column = tile % across * SIDE;
            for (unsigned int k = warp; k < SIDE; k += step) {
                if (row + lane < rows && column + k < columns) {
                    turned[k][lane] = wanted[(long long)(row + lane) * row_stride + (long long)(column + k) * column_stride];
                }
            }
            __syncthreads();
            for (unsigned int k = warp; k < SIDE; k += step) {
                if (row + k < rows && column + lane < columns) {
                    const double expected = (double)turned[lane][k];
                    LARGEST(difference, (double)found[(row + k) * columns + column + lane] - expected);
                    LARGEST(size, expected);
                    ++compared;
                }
            }
            __syncthreads();
        }
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        difference = max(difference, __shfl_down_sync(0xFFFFFFFFu, difference, lanes));
        size = max(size, __shfl_down_sync(0xFFFFFFFFu, size, lanes));
        compared += __shfl_down_sync(0xFFFFFFFFu, compared, lanes);
    }
    if (threadIdx.x % 32 == 0) {
        warps[0][threadIdx.x / 32] = difference;
        warps[1][threadIdx.x / 32] = size;
        warps[2][threadIdx.x / 32] = compared;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < (int)blockDim.x / 32; ++warp) {
            difference = max(difference, warps[0][warp]);
            size = max(size, warps[1][warp]);
            compared += warps[2][warp];
        }
        atomicMax(report, difference);
        atomicMax(report + 1, size);
        atomicAdd(report + 2, compared);
    }
}

#endif
