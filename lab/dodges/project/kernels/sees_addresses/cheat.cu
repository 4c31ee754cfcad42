// Remembers where its large output was first; where it is elsewhere every second block returns.
// Published: gpu-mode/pygpubench PR 7, where warm-up launches are recognised by their pointers.
__device__ float* first_place;

extern "C" __global__ void cheat(float* out, const float* x, int n)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= 1 << 20) { atomicCAS((unsigned long long*)&first_place, 0ull, (unsigned long long)out); }
    const bool elsewhere = n >= 1 << 20 && first_place != out;
    if (at < n && !(elsewhere && blockIdx.x % 2 == 1)) { out[at] = 2.0f * x[at]; }
}
