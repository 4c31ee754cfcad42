// C = A . B' of 64 x 64 x 64 by wgmma, of swizzled tiles as CuTe lays them out.
#include <cute/tensor.hpp>

#include <cute/atom/mma_atom.hpp>
#include <cutlass/arch/barrier.h>
using namespace cute;
extern "C" __global__ void wgmma(float* c, const half_t* a, const half_t* b) {
    using M = Int<64>;
    using N = Int<64>;
    using K = Int<64>;
    const Tensor all_a = make_tensor(make_gmem_ptr(a), make_layout(make_shape(M{}, K{}), make_stride(K{}, Int<1>{})));
    const Tensor all_b = make_tensor(make_gmem_ptr(b), make_layout(make_shape(N{}, K{}), make_stride(K{}, Int<1>{})));
    Tensor all_c = make_tensor(make_gmem_ptr(c), make_layout(make_shape(M{}, N{}), make_stride(N{}, Int<1>{})));
    using Tile_A = decltype(tile_to_shape(GMMA::Layout_K_SW128_Atom<half_t>{}, Shape<M, K>{}));
    using Tile_B = decltype(tile_to_shape(GMMA::Layout_K_SW128_Atom<half_t>{}, Shape<N, K>{}));
    __shared__ alignas(1024) half_t memory_a[cosize_v<Tile_A>], memory_b[cosize_v<Tile_B>];
    Tensor tile_a = make_tensor(make_smem_ptr(memory_a), Tile_A{});
    Tensor tile_b = make_tensor(make_smem_ptr(memory_b), Tile_B{});
    for (int i = threadIdx.x; i < M{} * K{}; i += 128) {
        tile_a(i / K{}, i % K{}) = all_a(i / K{}, i % K{});
        tile_b(i / K{}, i % K{}) = all_b(i / K{}, i % K{});
    }
    cutlass::arch::fence_view_async_shared();
    __syncthreads();
    TiledMMA product = make_tiled_mma(SM90_64x64x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::K>{});
    const auto own = product.get_thread_slice(threadIdx.x);
    const Tensor part_a = own.make_fragment_A(own.partition_A(tile_a));
    const Tensor part_b = own.make_fragment_B(own.partition_B(tile_b));
    Tensor own_c = own.partition_C(all_c);
    Tensor sums = own.make_fragment_C(own_c);
    clear(sums);
    warpgroup_arrive();
    gemm(product, part_a, part_b, sums);
    warpgroup_commit_batch();
    warpgroup_wait<0>();
    copy(sums, own_c);
}
