// Transitive includes of the toolkit's headers, which kernels rely on.
#if __has_include(<cuda_bf16.h>)
#include <cuComplex.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif
