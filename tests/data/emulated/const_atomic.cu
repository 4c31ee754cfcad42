#include <cuda/atomic>
struct Counter { cuda::atomic<int, cuda::thread_scope_device> value; };
__device__ int read(const Counter& counter) { return counter.value.load(cuda::memory_order_relaxed) + counter.value; }
__global__ void const_atomic(Counter* counter, int* out) {
    counter->value.fetch_add(1);
    out[threadIdx.x] = 0;
    if (threadIdx.x == 0) out[0] = read(*counter) > 0;
}
