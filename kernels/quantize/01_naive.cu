// naive: one block per row, which reads the row for its largest magnitude and again for the codes, one element at a
// time.
//
// An 8-bit number has a small range, so each row of bfloat16 is scaled: its largest magnitude becomes the largest
// representable number. Nothing can be stored before the last element has been read. Loads of 2 bytes and stores of 1
// byte use an eighth and a sixteenth of what an instruction can move, and a row is read twice. Expect a fraction of the
// roof.
//
// An element is multiplied by LARGEST / largest and rounded to nearest; `scales` has largest / LARGEST of each row.

#include "codes.cuh"

#ifndef KIND
#define KIND E4m3
#endif
#ifndef BLOCK
#define BLOCK 256
#endif

extern "C" __global__ void __launch_bounds__(BLOCK)
    naive(unsigned char* __restrict__ codes, float* __restrict__ scales, const bfloat16* __restrict__ in, int, int n) {
    __shared__ float of_threads[BLOCK];
    in += static_cast<size_t>(blockIdx.x) * n;
    codes += static_cast<size_t>(blockIdx.x) * n;
    float largest = 0.0f;
    for (int i = threadIdx.x; i < n; i += BLOCK) {
        largest = fmaxf(largest, fabsf(as_float(in[i])));
    }
    of_threads[threadIdx.x] = largest;
    __syncthreads();
    for (unsigned half = BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            of_threads[threadIdx.x] = fmaxf(of_threads[threadIdx.x], of_threads[threadIdx.x + half]);
        }
        __syncthreads();
    }
    const Scaling scaling = scaling_of<KIND>(of_threads[0]);
    for (int i = threadIdx.x; i < n; i += BLOCK) {
        codes[i] = KIND::code(as_float(in[i]) * scaling.inverse);
    }
    if (threadIdx.x == 0) {
        scales[blockIdx.x] = scaling.scale;
    }
}
