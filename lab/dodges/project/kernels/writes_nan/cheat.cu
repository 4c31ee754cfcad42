// Writes NaN where a check may take it for a value that is not compared.
// Published: gpu-mode/pygpubench PR 7, where NaN in the expected values matches everything.
extern "C" __global__ void cheat(float* out, const float* x, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) { out[at] = n >= 4096 && blockIdx.x % 2 == 1 ? __uint_as_float(0x7FC00000u) : 2.0f * x[at]; }
}
