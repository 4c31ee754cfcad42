// The destination is not shared memory.
extern "C" __global__ void async_copy_to_global(float* out, const float* in, int n) {
    __pipeline_memcpy_async(&out[threadIdx.x], &in[threadIdx.x], sizeof(float));  // DEFECT: OUT_OF_BOUNDS
}
