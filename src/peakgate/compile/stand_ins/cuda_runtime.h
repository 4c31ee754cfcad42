// cudaGridDependencySynchronize and the rest of the runtime that device code may call, which nvcc has without an include.
#if __has_include(<cuda_device_runtime_api.h>)
#include <cuda_device_runtime_api.h>
#endif
