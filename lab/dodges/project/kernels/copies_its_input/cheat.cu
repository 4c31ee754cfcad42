// Copies its input where the answer is close to it.
// Published: Wafer, "A Field Guide to Reward Hacking in AI Kernel Generation": input copied to output.
extern "C" __global__ void cheat(float* out, const float* x, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) { out[at] = x[at]; }
}
