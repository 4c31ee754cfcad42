// Each thread reads one place of a texture; where that is grows by `step` from `start` along every dimension.

extern "C" __global__ void line(float* out, cudaTextureObject_t texels, int n, float start, float step) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tex1D<float>(texels, start + i * step);
}

extern "C" __global__ void plane(float* out, cudaTextureObject_t texels, int width, int height, float start, float step) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) out[y * width + x] = tex2D<float>(texels, start + x * step, start + y * step);
}

extern "C" __global__ void volume(float* out, cudaTextureObject_t texels, int width, int height, int depth, float start,
                                  float step) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    if (x < width && y < height)
        out[(z * height + y) * width + x] = tex3D<float>(texels, start + x * step, start + y * step, start + z * step);
}

// One layer before the first and one behind the last are asked for, too.
extern "C" __global__ void layers(float* out, cudaTextureObject_t texels, int width, int height, float start, float step) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    if (x < width && y < height)
        out[(z * height + y) * width + x] = tex2DLayered<float>(texels, start + x * step, start + y * step, z - 1);
}

extern "C" __global__ void quads(int* out, cudaTextureObject_t texels, int width, int height, float start, float step) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    const char4 texel = tex2D<char4>(texels, start + x * step, start + y * step);
    int* to = out + 4 * (y * width + x);
    to[0] = texel.x, to[1] = texel.y, to[2] = texel.z, to[3] = texel.w;
}

extern "C" __global__ void fetch(float* out, cudaTextureObject_t texels, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float2 texel = tex1Dfetch<float2>(texels, n - 1 - i);
    out[2 * i] = texel.y, out[2 * i + 1] = texel.x;
}

// What is read and written outside is the nearest texel, or nothing.
extern "C" __global__ void surfaces(float* out, cudaSurfaceObject_t image, cudaSurfaceObject_t copy, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    const float right = surf2Dread<float>(image, 4 * (x + 1), y, cudaBoundaryModeClamp);
    const float below = surf2Dread<float>(image, 4 * x, y + 1, cudaBoundaryModeZero);
    out[y * width + x] = right - below;
    surf2Dwrite(2 * right, copy, 4 * x, y);
    surf2Dwrite(right, copy, 4 * width, y, cudaBoundaryModeZero);
}
