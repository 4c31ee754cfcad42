#ifndef __CUDACC_RTC__
#error
#endif
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define FEATURES __CUDA_ARCH_SPECIFIC__, __CUDA_ARCH_FAMILY_SPECIFIC__
#elif !defined __CUDA_ARCH_SPECIFIC__ && !defined __CUDA_ARCH_FAMILY_SPECIFIC__
#define FEATURES 0, 0
#endif
__global__ void arch(int* out) {
    const int found[] = {FEATURES, __CUDA_ARCH__};
    for (int i = 0; i < 3; ++i) out[i] = found[i];
}
