#include <type_traits>
#include <limits>
#include <algorithm>
#include <cuda.h>
#include <cub/cub.cuh>
#if CUDART_VERSION < 12000 || CUDA_VERSION < 12000 || __CUDACC_VER_MAJOR__ < 12 || !__CUDA_ARCH_LIST__
#error "as NVRTC has them"
#endif
template <class T> __device__ T positive(T a) {
    if constexpr (std::is_same_v<T, float> || std::is_integral<T>::value) return std::max(a, T(0));
    return a;
}
__global__ void headers(float* out) {
    using Reduce = cub::BlockReduce<float, 64>;
    __shared__ typename Reduce::TempStorage storage;
    const float sum = Reduce(storage).Sum(1.0f);
    int a = 1, b = 2;
    std::swap(a, b);
    if (threadIdx.x) return;
    out[0] = sum + std::min(std::numeric_limits<float>::max(), 3.0f) + positive(-2.0f) + std::clamp(5, 0, a);
}
