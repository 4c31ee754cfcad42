// Addresses of variables are passed down, and what they hold is returned.
struct Fragment { float values[4]; };
__device__ float total(const float* from) { return from[0] + from[1] + from[2] + from[3]; }
__device__ float total_of(const Fragment& of) {
    float own[4] = {of.values[3], of.values[2], of.values[1], of.values[0]};
    return total(&own[0]);
}
__device__ Fragment twice(const Fragment* of) {
    Fragment made;
    for (int i = 0; i < 4; ++i) made.values[i] = 2 * of->values[i];
    return *&made;
}
extern "C" __global__ void fragment_by_value(float* out, const float* in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const Fragment own = {in[i], in[i], in[i], in[i]};
    out[i] = total_of(twice(&own));
}
