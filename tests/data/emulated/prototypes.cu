void launch(float* out);
template <class T> T once(T a);
int table(int a);
INSTANTIATE(float);
static_assert(sizeof(int) == 4);
int table(int a) { return lookup_of_the_host(a); }
__device__ float scaled(float a);
struct Line { float a; };
__global__ void kernel(float* out) {
    cudaGridDependencySynchronize();
    out[0] = once(scaled(1));
}
template <class T> T once(T a) { return a; }
__global__ void other(float* out) { out[0] = 2; }
void launch(float* out) { kernel<<<1, 1>>>(out); }
