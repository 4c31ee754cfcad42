#define SYS_gettid 186
template <class... T> __device__ inline long syscall(long, T...) { return 0; }
