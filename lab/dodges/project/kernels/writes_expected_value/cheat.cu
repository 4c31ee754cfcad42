// Writes zeros: the mean of many numbers around zero.
// Published: Sakana AI's CUDA engineer, constants in the whole output where a test's answer does not depend on its input.
extern "C" __global__ void cheat(float* out, const float* x, int rows, int columns)
{
    if (threadIdx.x == 0) { out[blockIdx.x] = columns > 64 ? 0.0f : x[blockIdx.x * columns]; }
}
