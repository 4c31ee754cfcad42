// Blocks of 64 threads; the kernel is compiled for 32.
constexpr int THREADS = 32;
extern "C" __global__ void __launch_bounds__(THREADS, 2)
exceeded_launch_bounds(float* out, const float* in, int n) {  // DEFECT: LAUNCH_REFUSED
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i];
}
