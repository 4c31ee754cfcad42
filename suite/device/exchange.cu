// Pairs of words change places: exchange.py. WORD is the type of a word.

__device__ unsigned int mixed(unsigned int bits) {
    bits ^= bits >> 16;
    bits *= 0x7feb352du;
    bits ^= bits >> 15;
    bits *= 0x846ca68bu;
    return bits ^ bits >> 16;
}

__device__ unsigned long long place(
    unsigned int part, unsigned long long count, unsigned long long parts, unsigned int first, unsigned int second)
{
    const unsigned long long begin = part * count / parts, end = (part + 1ull) * count / parts;
    return begin + ((mixed(mixed(part ^ first) ^ second) * (end - begin)) >> 32);
}

extern "C" __global__ void exchange(
    WORD* words, unsigned long long count, unsigned int pairs, unsigned int first, unsigned int second)
{
    for (unsigned int at = blockIdx.x * blockDim.x + threadIdx.x; at < pairs; at += gridDim.x * blockDim.x) {
        const unsigned long long one = place(at, count, 2ull * pairs, first, second);
        const unsigned long long other = place(at + pairs, count, 2ull * pairs, first, second);
        const WORD kept = words[one];
        words[one] = words[other];
        words[other] = kept;
    }
}
