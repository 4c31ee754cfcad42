// An address that belongs to nothing.
extern "C" __global__ void wild_pointer(float* out, const float* in, int n) {
    out[(1ll << 40) + threadIdx.x] = 0.0f;  // DEFECT: OUT_OF_BOUNDS
}
