// An atomic on eight bytes at a multiple of four.
extern "C" __global__ void misaligned_atomic(float* out, const float* in, int n) {
    atomicAdd(reinterpret_cast<unsigned long long*>(&out[1]), 1ull);  // DEFECT: MISALIGNED
}
