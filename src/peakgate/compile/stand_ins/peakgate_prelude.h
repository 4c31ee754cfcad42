// What nvcc offers without an include; the mathematical functions follow.
#pragma once
#include <library_types.h>
namespace std { using ::size_t; }
typedef unsigned char uchar; typedef unsigned short ushort; typedef unsigned int uint; typedef unsigned long ulong;
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned uint32_t;
typedef unsigned long long uint64_t;
#define __extension__
#define __asm__ asm
#define __asm asm
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define HUGE_VALF INFINITY
// The kernel among functions of its name, such as `norm`: it alone returns nothing.
#if __cplusplus < 201103L
#define peakgate_kernel(kernel) kernel
#else
template <class... Parameters>
__device__ constexpr auto peakgate_kernel(void (*kernel)(Parameters...)) -> decltype(kernel) { return kernel; }
#endif
