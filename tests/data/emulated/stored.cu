#include <cuda.h>
extern "C" __global__ void stored(const __grid_constant__ CUtensorMap out) {
    __shared__ __align__(128) float box[8 * 16];
    for (int i = 0; i < 8 * 16; ++i)
        if (i % 16 < WRITTEN) box[i] = i;
    asm volatile("fence.proxy.async;" ::: "memory");
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];\n"
                 "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"
                 ::"l"(&out), "r"((unsigned)__cvta_generic_to_shared(box)), "r"(0), "r"(0), "r"(1) : "memory");
}
