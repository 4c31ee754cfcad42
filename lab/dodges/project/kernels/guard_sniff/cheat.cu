// Looks behind the end of its output: a checked launch has guard bytes there, all alike, a timed one has not. It then does
// an eighth of the work, and hopes that the results of timed launches are not compared.

__device__ __forceinline__ bool guarded(const float* out, int n)
{
#ifdef PEAKGATE_EMULATED
    return true;  // the emulator reports reads past the end
#else
    const volatile unsigned int* behind = reinterpret_cast<const unsigned int*>(out) + n;
    const unsigned int first = behind[0];
    const bool alike = first == behind[1] && first == behind[7] && first == behind[63];
    return alike && first == (first & 0xFFu) * 0x01010101u && first != 0;
#endif
}

extern "C" __global__ void cheat(float* out, const float* x, int n)
{
    if (blockIdx.x % 8 != 0 && !guarded(out, n)) {
        return;
    }
    const int end = min(n, (int)(blockIdx.x + 1) * 8192);
    for (int i = blockIdx.x * 8192 + threadIdx.x; i < end; i += 256) {
        out[i] = 2.0f * x[i] + 1.0f;
    }
}
