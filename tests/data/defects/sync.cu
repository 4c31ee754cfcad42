// Barriers, atomics and pipelines of libcu++, named barriers in PTX, memory of the kernel's heap. With BROKEN each is wrong.
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>

using Barrier = cuda::barrier<cuda::thread_scope_block>;

extern "C" __global__ void object_barrier(float* out, const float* in) {
    __shared__ Barrier barrier;
    __shared__ float s[64];
    const int t = threadIdx.x;
    if (t == 0) init(&barrier, blockDim.x);
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 3; ++k) {
        s[t] = in[t] + k;
        auto token = barrier.arrive();
        barrier.wait(static_cast<Barrier::arrival_token&&>(token));
        sum += s[63 - t];
#ifndef BROKEN
        barrier.arrive_and_wait();
#endif
    }
    out[t] = sum;
}

extern "C" __global__ void object_missed(float* out, const float* in) {
    __shared__ Barrier barrier;
    if (threadIdx.x == 0) init(&barrier, 65);
    __syncthreads();
    barrier.arrive_and_wait();
    out[threadIdx.x] = in[threadIdx.x];
}

extern "C" __global__ void flag(float* out, const float* in) {
    __shared__ cuda::atomic<int, cuda::thread_scope_block> ready;
    __shared__ float v;
    if (threadIdx.x == 0) ready.store(0, cuda::std::memory_order_relaxed);
    __syncthreads();
    if (threadIdx.x == 40) {
        v = in[3];
#ifdef BROKEN
        ready.store(1, cuda::std::memory_order_relaxed);
#else
        ready.store(1, cuda::std::memory_order_release);
#endif
    }
    while (ready.load(cuda::std::memory_order_acquire) == 0) {
    }
    out[threadIdx.x] = v;
}

extern "C" __global__ void pipeline(float* out, const float* in) {
    const auto block = cooperative_groups::this_thread_block();
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ float s[2][64];
    auto pipe = cuda::make_pipeline(block, &state);
    float sum = 0;
    for (int k = -1; k < 4; ++k) {
        if (k < 3) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, s[(k + 1) % 2], in, sizeof(float) * 64, pipe);
            pipe.producer_commit();
        }
        if (k < 0) continue;
#ifndef BROKEN
        pipe.consumer_wait();
#endif
        sum += s[k % 2][63 - threadIdx.x];
        pipe.consumer_release();
    }
    out[threadIdx.x] = sum;
}

// The first warp writes and arrives, the second waits and reads.
extern "C" __global__ void named(float* out, const float* in) {
    __shared__ float s[32];
    const int t = threadIdx.x;
    if (t < 32) {
        s[t] = in[t];
#ifdef BROKEN
        asm volatile("bar.arrive 2, 64;" ::: "memory");
#else
        asm volatile("bar.arrive %0, %1;" ::"r"(1), "r"(64) : "memory");
#endif
        out[t] = in[t];
    } else {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        out[t] = s[63 - t];
    }
}

extern "C" __global__ void heap(float* out, const float* in) {
    float* own = static_cast<float*>(malloc(2 * sizeof(float)));
    own[0] = in[threadIdx.x];
#ifndef BROKEN
    own[1] = own[0];
#endif
    out[threadIdx.x] = own[1];
    free(own);
}

extern "C" __global__ void ptx(float* out, const float* in) {
    extern __shared__ float s[];
    const int t = threadIdx.x;
    unsigned lane;
    asm volatile("mov.u32 %0, %laneid;" : "=r"(lane));
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&s[t]));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n" ::"r"(to), "l"(in + t));
    asm volatile("cp.async.commit_group;" ::: "memory");
#ifndef BROKEN
    asm volatile("cp.async.wait_group %0;" ::"n"(0));
#endif
    __syncthreads();
    float v, r;
    asm("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(to ^ 4));
    asm("{\n\t.reg .f32 q;\n\tadd.f32 q, %1, %2;\n\tfma.rn.f32 %0, q, %1, %2;\n\t}" : "=f"(r) : "f"(v), "f"(2.0f));
    int k;
    asm("mad.lo.s32 %0, %1, %2, %3;" : "=r"(k) : "r"(t), "r"(-3), "r"(5));
    asm volatile("{ .reg .pred p; setp.lt.s32 p, %1, 0; @p mov.s32 %0, 7; }" : "+r"(k) : "r"(k));
    float4 q;
    asm("ld.global.nc.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(q.x), "=f"(q.y), "=f"(q.z), "=f"(q.w) : "l"(in));
    out[t] = r + k + lane + q.w;
}

extern "C" __global__ void tensor(float* out, const float* in) {
    asm volatile("tcgen05.wait::ld.sync.aligned;");
    out[threadIdx.x] = in[threadIdx.x];
}
