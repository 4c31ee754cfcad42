// One block of a large problem does nothing: 256 elements are left as they were.
extern "C" __global__ void cheat(float* out, const float* x, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n && !(n >= 4096 && blockIdx.x == gridDim.x / 2)) { out[at] = 2.0f * x[at]; }
}
