extern "C" __global__ void traps(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef __CUDACC_RTC__
    if (n > 33 && i == 0) __trap();
#else
    if (n > 33 && i == 0) __builtin_trap();
#endif
    if (i < n) out[i] = in[i];
}
