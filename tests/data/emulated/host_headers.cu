#include <cstdint>
#include <limits>
#include <type_traits>
#include <cassert>
#include <float.h>
#include <cstdlib>
#include <algorithm>
#include <cmath>
#include <math.h>
#include <stdio.h>
#include <cuda_runtime.h>
#include <cuda_runtime_api.h>
#include <device_launch_parameters.h>
#include <vector>
#include <iostream>
#include <string>
#include <climits>
#include <cfloat>
#include <utility>
#include <cstdio>
#include <string.h>
#include <stdint.h>
#include <stddef.h>
#include <assert.h>
#include <tuple>
#include <cstring>
#include <chrono>
#include <random>
#include <memory>
#include <cuda/std/limits>
#include <cuda/std/cstdint>
#include <cuda/std/type_traits>
#include <pthread.h>
using namespace std;
typedef pthread_t Thread;
__global__ void host_headers(float* out, const float* in) {
    const uint i = threadIdx.x;
    const std::uint32_t wide = UINT32_MAX;
    float value = std::max(in[i], 1.0f) + max(1, 2) + sqrt(in[i]) + std::sqrt(in[i]) + std::abs(-1.0f);
    value += std::min<int>(3, 4) + ceil(7 / 2) + pow(in[i], 2) + float(M_PI) + (wide == INT_MAX);
    if (isinf(INFINITY) && std::isnan(NAN) && value < FLT_MAX && value < std::numeric_limits<float>::max())
        out[i] = value;
    assert((std::is_same<int, int32_t>::value));
    std::memcpy(&value, in, sizeof value);
}
