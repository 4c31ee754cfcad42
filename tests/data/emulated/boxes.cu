#include <cuda.h>
extern "C" __global__ void boxes(unsigned char* out, PARAMETER in, int x, int y, int z) {
    __shared__ __align__(128) unsigned char box[4096];
    __shared__ __align__(8) unsigned long long barrier;
    const unsigned to = (unsigned)__cvta_generic_to_shared(box), ready = (unsigned)__cvta_generic_to_shared(&barrier);
    asm volatile("mbarrier.init.shared.b64 [%0], 1;\nfence.proxy.async;" ::"r"(ready) : "memory");
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(ready), "r"(LOADED));
    asm volatile(TILE ::"r"(to), "l"(MAP), "r"(x), "r"(y), "r"(z), "r"(ready), "h"((unsigned short)BLOCKS));
    asm volatile("{\n.reg .b64 state;\n.reg .pred over;\nmbarrier.arrive.shared.b64 state, [%0];\n"
                 "again: mbarrier.try_wait.shared.b64 over, [%0], state;\n@!over bra again;\n}" ::"r"(ready));
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out), "r"(to), "r"(LOADED));
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;");
}
