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

// report[0]: the largest |found - wanted|, report[1]: the largest |wanted|, both as the bits of a double, which order
// as their absolute values do, a NaN above all; report[2]: how many elements were compared.
extern "C" __global__ void compare(const FOUND* found, const WANTED* wanted, unsigned long long rows,
                                   unsigned long long columns, long long row_stride, long long column_stride,
                                   unsigned long long* report)
{
    const unsigned long long count = rows * columns, step = (unsigned long long)gridDim.x * blockDim.x;
    const bool narrow = count <= 0xFFFFFFFFull;  // a division of 32 bits costs a quarter of one of 64
    unsigned long long difference = 0, size = 0, compared = 0;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        unsigned long long at = i;
        if (rows > 1) {
            const unsigned long long row = narrow ? (unsigned int)i / (unsigned int)columns : i / columns;
            at = row * row_stride + (i - row * columns) * column_stride;
        }
        const double expected = (double)wanted[(long long)at];
        difference = max(difference, (unsigned long long)__double_as_longlong(fabs((double)found[i] - expected)));
        size = max(size, (unsigned long long)__double_as_longlong(fabs(expected)));
        ++compared;
    }
    __shared__ unsigned long long warps[3][32];
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
