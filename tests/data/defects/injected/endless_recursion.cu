// On one line, because any access to the stack may be the one that finds it full.
// clang-format off
__device__ __noinline__ float deeper(const float* in, int n) { volatile float a[64]; a[n % 64] = in[0]; return deeper(in, n + 1) * a[n % 64]; } // DEFECT: FAULT
// clang-format on
extern "C" __global__ void endless_recursion(float* out, const float* in, int n) { out[threadIdx.x] = deeper(in, 1); }
