// Every thread waits for every other, for ever.
extern "C" __global__ void endless_barriers(float* out, const float* in, int n) {
    while (n > 0) __syncthreads();  // DEFECT: ENDLESS_LOOP
}
