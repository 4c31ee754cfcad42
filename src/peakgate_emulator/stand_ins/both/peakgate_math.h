// Types of the host's runtime that parameters may have as members, and the room of those of its C++ library; M_PI and its kin; and the mathematical functions, also of integers, which nvcc takes from the host's library: those of double.
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
struct peakgate_8 { void* words[1]; };
struct peakgate_16 { void* words[2]; };
struct peakgate_24 { void* words[3]; };
struct peakgate_32 { void* words[4]; };
struct peakgate_48 { void* words[6]; };

#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440

#define PEAKGATE_OF_INTEGER(name, type) inline double name(type x) { return name(static_cast<double>(x)); }
#define PEAKGATE_OF_INTEGERS(name)              \
    PEAKGATE_OF_INTEGER(name, int)                \
    PEAKGATE_OF_INTEGER(name, unsigned)           \
    PEAKGATE_OF_INTEGER(name, long)               \
    PEAKGATE_OF_INTEGER(name, unsigned long)      \
    PEAKGATE_OF_INTEGER(name, long long)          \
    PEAKGATE_OF_INTEGER(name, unsigned long long)
PEAKGATE_OF_INTEGERS(sqrt)
PEAKGATE_OF_INTEGERS(cbrt)
PEAKGATE_OF_INTEGERS(ceil)
PEAKGATE_OF_INTEGERS(floor)
PEAKGATE_OF_INTEGERS(exp)
PEAKGATE_OF_INTEGERS(exp2)
PEAKGATE_OF_INTEGERS(log)
PEAKGATE_OF_INTEGERS(log2)
PEAKGATE_OF_INTEGERS(log10)
PEAKGATE_OF_INTEGERS(sin)
PEAKGATE_OF_INTEGERS(cos)
PEAKGATE_OF_INTEGERS(tan)
PEAKGATE_OF_INTEGERS(tanh)
#undef PEAKGATE_OF_INTEGERS
#undef PEAKGATE_OF_INTEGER
#include <cmath>
