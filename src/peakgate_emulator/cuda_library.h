// Definitions that NVIDIA's own headers expect from nvcc and from the host's library, for kernels that include
// cuda::std, cuda::ptx or cuRAND's device code (headers.py).
#pragma once

#include <iosfwd>
#include <utility>

#define CCCL_DISABLE_CTK_COMPATIBILITY_CHECK 1
#define CCCL_DISABLE_EXCEPTIONS 1
// Prevents including NVIDIA's own narrow types, which the emulator replaces.
#define CCCL_DISABLE_FP16_SUPPORT 1
#define CCCL_DISABLE_BF16_SUPPORT 1
#define CCCL_DISABLE_NVFP8_SUPPORT 1
#define CCCL_DISABLE_NVFP6_SUPPORT 1
#define CCCL_DISABLE_NVFP4_SUPPORT 1
#define __NV_SILENCE_DEPRECATION_BEGIN
#define __NV_SILENCE_DEPRECATION_END

struct div_t {
    int quot, rem;
};
struct ldiv_t {
    long quot, rem;
};
struct lldiv_t {
    long long quot, rem;
};
typedef float float_t;
typedef double double_t;
extern "C" {
const char* strchr(const char*, int) noexcept;
const char* strrchr(const char*, int) noexcept;
const void* memchr(const void*, int, size_t) noexcept;
void* memmove(void*, const void*, size_t) noexcept;
int memcmp(const void*, const void*, size_t) noexcept;
[[noreturn]] void exit(int) noexcept;
void*(malloc)(size_t) noexcept;
void(free)(void*) noexcept;
void* calloc(size_t, size_t) noexcept;
div_t div(int, int) noexcept;
ldiv_t ldiv(long, long) noexcept;
lldiv_t lldiv(long long, long long) noexcept;
void* aligned_alloc(size_t, size_t) noexcept;
}
namespace cuda {
namespace std {
using ::peakgate_free;
using ::peakgate_malloc;
} // namespace std
} // namespace cuda
// The address space of a pointer is used only in assertions.
inline int __isGlobal(const void*) { return 1; }
inline int __isShared(const void*) { return 1; }
inline int __isClusterShared(const void*) { return 1; }
inline int __isConstant(const void*) { return 1; }
inline int __isLocal(const void*) { return 1; }
inline int __isGridConstant(const void*) { return 1; }
