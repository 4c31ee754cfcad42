// The same with the PTX instruction.
extern "C" __global__ void read_only_ptx_load_of_written(float* out, const float* in, int n) {
    float4* const own = (float4*)out + blockIdx.x * 16;
    if (threadIdx.x >= 16) return;
    own[threadIdx.x] = ((const float4*)in)[threadIdx.x];
    float4 v;
    asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"  // DEFECT: GLOBAL_RACE
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(own + threadIdx.x));
    own[threadIdx.x] = make_float4(v.w, v.z, v.y, v.x);
}
