// A view of a converted fragment, as kernels of attention pass it on: the fragment ends with the function.
template <class T> struct View {
    T* at;
    __device__ T& operator()(int i) const { return at[i]; }
};
template <class T> __device__ View<T> make_view(T* at) { return {at}; }
template <class To, class From> __forceinline__ __device__ auto converted(const View<From>& from) {
    struct { To values[4]; } fragment;
    for (int i = 0; i < 4; ++i) fragment.values[i] = (To)from(i);
    return make_view(reinterpret_cast<To*>(&fragment));
}
extern "C" __global__ void fragment_of_returned_function(float* out, const float* in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float own[4] = {in[i], in[i], in[i], in[i]};
    const auto halves = converted<short>(make_view(own));
    out[i] = halves(0) + halves(1);  // DEFECT: DANGLING_POINTER
}
