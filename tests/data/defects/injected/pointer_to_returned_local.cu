// The pointer outlives the function whose variable it points to.
__device__ __noinline__ void take(float** to, float value) {
    float own[4] = {value, value, value, value};
    *to = own;
}
extern "C" __global__ void pointer_to_returned_local(float* out, const float* in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float* values;
    take(&values, in[i]);
    out[i] = values[1];  // DEFECT: DANGLING_POINTER
}
