// naive: one thread per row, which reads the row three times: for the centre, for the sum and for the result.
//
// Neighbouring threads read elements that are one row apart, so a warp touches 32 sectors for 32 elements and reads the
// rest of each sector later. It makes three passes over the data, and with a few thousand rows there are too few
// threads to fill the GPU. Expect a few percent of the roof.
//
// `weight` and `bias` have one value for each column, where the norm has them.

#include "statistics.cuh"

#ifndef NORM
#define NORM Softmax
#endif
#ifndef ELEMENT
#define ELEMENT bfloat16
#endif

extern "C" __global__ void naive(ELEMENT* __restrict__ out, const ELEMENT* __restrict__ in,
                                 const ELEMENT* __restrict__ weight, const ELEMENT* __restrict__ bias, int rows, int n) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) {
        return;
    }
    in += static_cast<size_t>(row) * n;
    out += static_cast<size_t>(row) * n;
    float folded = NORM::START;
    for (int i = 0; i < n; ++i) {
        folded = NORM::fold(folded, as_float(in[i]));
    }
    const float centre = NORM::centre(folded, n);
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) {
        sum += NORM::term(as_float(in[i]), centre);
    }
    const Factors factors = NORM::factors({sum, centre, static_cast<float>(n)}, n);
    for (int i = 0; i < n; ++i) {
        store_rounded(out + i, normalised<NORM>(as_float(in[i]), factors, weight, bias, i));
    }
}
