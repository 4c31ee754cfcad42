// A tile through shared memory, by tensors of CuTe.
#include <cute/tensor.hpp>
using namespace cute;
extern "C" __global__ void transposed(float* out, const float* in) {
    __shared__ float memory[4 * 32];
    const auto rows = make_layout(make_shape(Int<4>{}, Int<32>{}), make_stride(Int<32>{}, Int<1>{}));
    const auto columns = make_layout(make_shape(Int<32>{}, Int<4>{}), make_stride(Int<4>{}, Int<1>{}));
    const Tensor from = make_tensor(make_gmem_ptr(in), rows);
    Tensor to = make_tensor(make_gmem_ptr(out), columns);
    Tensor tile = make_tensor(make_smem_ptr(memory), rows);
    tile(threadIdx.x / 32, threadIdx.x % 32) = from(threadIdx.x / 32, threadIdx.x % 32);
    __syncthreads();
    to(threadIdx.x / 4, threadIdx.x % 4) = tile(threadIdx.x % 4, threadIdx.x / 4);
}
