// Never ends and never touches memory.
extern "C" __global__ void endless_computation(float* out, const float* in, int n) {
    unsigned state = n;
    while (state != 0) state = state * 1664525u | 1u;  // DEFECT: ENDLESS_LOOP
    out[threadIdx.x] = state;
}
