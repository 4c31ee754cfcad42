#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void tile(float* c, const __nv_bfloat16* a, const __nv_bfloat16* b) {
    wmma::fragment<wmma::matrix_a, M, N, 16, __nv_bfloat16, wmma::row_major> of_a;
    wmma::fragment<wmma::matrix_b, M, N, 16, __nv_bfloat16, wmma::col_major> of_b;
    wmma::fragment<wmma::accumulator, M, N, 16, float> sums;
    wmma::fill_fragment(sums, 1.0f);
    wmma::load_matrix_sync(of_a, a, 16);
    wmma::load_matrix_sync(of_b, b, 16);
    wmma::mma_sync(sums, of_a, of_b, sums);
    for (int i = 0; i < sums.num_elements; ++i) sums.x[i] *= 2.0f;
    wmma::store_matrix_sync(c, sums, N, wmma::mem_row_major);
}
