// C = A . B' of 64 x 64 x 32 by cp.async, ldmatrix and mma.sync, as atoms of CuTe.
#include <cute/tensor.hpp>

#include <cute/atom/copy_atom.hpp>
#include <cute/atom/mma_atom.hpp>
using namespace cute;
extern "C" __global__ void mma_sync(float* c, const half_t* a, const half_t* b) {
    using M = Int<64>;
    using N = Int<64>;
    using K = Int<32>;
    const Tensor all_a = make_tensor(make_gmem_ptr(a), make_layout(make_shape(M{}, K{}), make_stride(K{}, Int<1>{})));
    const Tensor all_b = make_tensor(make_gmem_ptr(b), make_layout(make_shape(N{}, K{}), make_stride(K{}, Int<1>{})));
    Tensor all_c = make_tensor(make_gmem_ptr(c), make_layout(make_shape(M{}, N{}), make_stride(N{}, Int<1>{})));
    using Rows = decltype(composition(Swizzle<2, 3, 3>{}, Layout<Shape<_8, _32>, Stride<_32, _1>>{}));
    using Tile_A = decltype(tile_to_shape(Rows{}, Shape<M, K>{}));
    using Tile_B = decltype(tile_to_shape(Rows{}, Shape<N, K>{}));
    __shared__ alignas(128) half_t memory_a[cosize_v<Tile_A>], memory_b[cosize_v<Tile_B>];
    Tensor tile_a = make_tensor(make_smem_ptr(memory_a), Tile_A{});
    Tensor tile_b = make_tensor(make_smem_ptr(memory_b), Tile_B{});
    const auto brings = make_tiled_copy(Copy_Atom<SM80_CP_ASYNC_CACHEALWAYS<uint128_t>, half_t>{},
                                        Layout<Shape<_32, _4>, Stride<_4, _1>>{}, Layout<Shape<_1, _8>>{});
    const auto brought = brings.get_slice(threadIdx.x);
    copy(brings, brought.partition_S(all_a), brought.partition_D(tile_a));
    copy(brings, brought.partition_S(all_b), brought.partition_D(tile_b));
    cp_async_fence();
    cp_async_wait<0>();
    __syncthreads();
    TiledMMA product = make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{}, Layout<Shape<_2, _2>>{}, Tile<_32, _32, _16>{});
    const auto own = product.get_slice(threadIdx.x);
    Tensor part_a = own.partition_fragment_A(tile_a);
    Tensor part_b = own.partition_fragment_B(tile_b);
    Tensor sums = partition_fragment_C(product, Shape<M, N>{});
    clear(sums);
    const auto loads_a = make_tiled_copy_A(Copy_Atom<SM75_U32x4_LDSM_N, half_t>{}, product);
    const auto loads_b = make_tiled_copy_B(Copy_Atom<SM75_U32x4_LDSM_N, half_t>{}, product);
    const auto of_a = loads_a.get_slice(threadIdx.x);
    const auto of_b = loads_b.get_slice(threadIdx.x);
    copy(loads_a, of_a.partition_S(tile_a), of_a.retile_D(part_a));
    copy(loads_b, of_b.partition_S(tile_b), of_b.retile_D(part_b));
    gemm(product, part_a, part_b, sums);
    copy(sums, own.partition_C(all_c));
}
