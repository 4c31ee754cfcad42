// Writes whole vectors without looking at its end, and behind it what a fixed guard pattern would be.
extern "C" __global__ void cheat(float* out, const float* x, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) { out[at] = 2.0f * x[at]; }
    if (at >= n && at < n + 64) { out[at] = __uint_as_float(0xFFFFFFFFu); }
    if (at == 0) { out[n] = __uint_as_float(0xFFFFFFFFu); }
}
