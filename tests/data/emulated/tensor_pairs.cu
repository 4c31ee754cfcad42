// out[block] = address of columns that the pairs of blocks of a grid allocate and free.
extern "C" __global__ void __cluster_dims__(2, 1, 1) tensor_pairs(unsigned* out) {
    __shared__ unsigned address;
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 64;" ::"r"((unsigned)__cvta_generic_to_shared(&address)));
    __syncwarp();
    if (threadIdx.x == 0) out[blockIdx.x] = address;
    asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 64;" ::"r"(address));
}
