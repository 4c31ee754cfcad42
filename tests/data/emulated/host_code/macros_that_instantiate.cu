template <int n> void launched(float* x) { cudaMalloc(&x, n); }  // HOST
#define DECLARE(n) \
    template void launched<n>(float* x)
extern DECLARE(4);  // HOST
#define DECLARE_ALL()  \
    extern DECLARE(8); \
    extern DECLARE(9);
DECLARE_ALL()  // HOST
#define TWICE(name) __device__ float name(float x) { return 2 * x; }
TWICE(doubled)
__global__ void k(float* x) { *x = doubled(*x); }
