// CUDA's runtime for the host code of a program whose kernels the emulator runs: device memory is the host's, and a launch
// calls Python with the addresses of its arguments.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __forceinline__ inline
#define __align__(bytes) alignas(bytes)
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
namespace host {
inline dim3 threadIdx, blockIdx, blockDim, gridDim;
}
using host::blockDim, host::blockIdx, host::gridDim, host::threadIdx;

enum cudaError_t { cudaSuccess };
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
struct cudaDeviceProp {
    int major = 9, minor = 0, maxThreadsPerMultiProcessor = 2048, multiProcessorCount = 1, clockRate = 0, memoryClockRate = 0;
    char name[256] = "emulated";
};

namespace cooperative_groups {} // its users name it
namespace cuda {
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };
template <typename T, thread_scope = thread_scope_system> struct atomic {
    T value;
    T operator=(T given) { return value = given; }
    operator T() const { return value; }
};
} // namespace cuda

// An argument as passed to Python: an address of array elements, a number, or bytes.
struct HostArgument {
    const void* at;
    long size;
    int kind;         // 0 integer, 1 real, 2 pointer, 3 bytes
    int element_size; // of a pointer
    int element_kind;
};

struct HostHooks {
    void (*allocated)(void*, long);
    void (*launched)(const char*, const unsigned*, long, const HostArgument*, int);
};
extern "C" inline HostHooks peakgate_hooks = {};

namespace host {

template <typename T> constexpr int kind() {
    if constexpr (std::is_pointer_v<T>)
        return 2;
    else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>)
        return 0;
    else
        return std::is_floating_point_v<T> ? 1 : 3;
}

template <typename T> constexpr int size() {
    if constexpr (std::is_void_v<T> || std::is_function_v<T>)
        return 1;
    else
        return sizeof(T);
}

template <typename T> HostArgument described(const T& value) {
    using Element = std::remove_cv_t<std::remove_pointer_t<T>>;
    return {&value, static_cast<long>(sizeof(T)), kind<T>(), size<Element>(), kind<Element>()};
}

inline void launch(const char* kernel, dim3 grid, dim3 block, size_t shared, const HostArgument* arguments, int count) {
    const unsigned shape[] = {grid.x, grid.y, grid.z, block.x, block.y, block.z};
    peakgate_hooks.launched(kernel, shape, static_cast<long>(shared), arguments, count);
}

template <typename Kernel> struct Launch;
template <typename... Parameters> struct Launch<void (*)(Parameters...)> {
    const char* kernel;
    dim3 grid, block;
    size_t shared;
    Launch(const char* kernel, dim3 grid, dim3 block, size_t shared = 0, int = 0)
        : kernel(kernel), grid(grid), block(block), shared(shared) {}

    void operator()(std::decay_t<Parameters>... values) const {
        const HostArgument arguments[] = {described(values)..., {}};
        launch(kernel, grid, block, shared, arguments, sizeof...(Parameters));
    }

    // With an array for each pointer, in which each number is 1, and one value for all integers.
    void with(long integer) const { (*this)(any<std::decay_t<Parameters>>(integer)...); }

    template <typename T> T any(long integer) const;
};

} // namespace host

inline void* host_allocation(size_t bytes) {
    void* made = aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
    memset(made, 0, bytes); // as a GPU's memory that nothing has used
    peakgate_hooks.allocated(made, static_cast<long>(bytes));
    return made;
}

template <typename... Parameters>
template <typename T>
T host::Launch<void (*)(Parameters...)>::any(long integer) const {
    using Element = std::remove_cv_t<std::remove_pointer_t<T>>;
    if constexpr (std::is_pointer_v<T> && std::is_function_v<Element>) {
        return nullptr;
    } else if constexpr (std::is_pointer_v<T>) {
        const size_t count = std::max<size_t>(65536, size_t{16} * grid.x * grid.y * grid.z * block.x * block.y * block.z);
        constexpr int each = size<Element>();
        void* made = host_allocation(count * each);
        if constexpr (std::is_arithmetic_v<Element>) {
            for (size_t i = 0; i < count; ++i) static_cast<Element*>(made)[i] = 1;
        }
        return static_cast<T>(made);
    } else if constexpr (std::is_arithmetic_v<T>) {
        return static_cast<T>(std::is_floating_point_v<T> ? 1 : integer);
    } else {
        return T{};
    }
}

template <typename T> cudaError_t cudaMalloc(T** at, size_t bytes) {
    *at = static_cast<T*>(host_allocation(bytes));
    return cudaSuccess;
}
inline cudaError_t cudaFree(void*) { return cudaSuccess; } // the program ends soon
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
    memmove(to, from, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemset(void* at, int value, size_t bytes) {
    memset(at, value, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
    *properties = {};
    return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t) { return "none"; }
