// A surface in place.
extern "C" __global__ void negate(cudaSurfaceObject_t image, int height, int width) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) surf2Dwrite(-surf2Dread<float>(image, 4 * x, y), image, 4 * x, y);
}
