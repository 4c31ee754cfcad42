// 4-bit integers with a scale per row to float32.
#include <cstdint>
extern "C" __global__ void unpack(float* out, const uint8_t* weights, const float* scales, int rows, int columns) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < rows * columns / 2) {
        const int low = weights[at] & 15, high = weights[at] >> 4;
        const float scale = scales[2 * at / columns];
        out[2 * at] = scale * static_cast<float>(low - (low & 8) * 2);
        out[2 * at + 1] = scale * static_cast<float>(high - (high & 8) * 2);
    }
}
