// An assertion that does not hold.
extern "C" __global__ void failed_assertion(float* out, const float* in, int n) {
    assert(n < 10);  // DEFECT: ASSERTION
}
