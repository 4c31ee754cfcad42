// Casts of floating-point numbers to integers that cannot represent them. C++ leaves the result undefined. CUDA's
// compilers emit cvt.rzi to 32 bits, or to 64 for larger integers, which saturates (PTX ISA, cvt); of it smaller integers
// are the lowest bits. NaN becomes 0, or the highest bit alone if either type has 64 bits.
//
// g++ calls the handler on a cold path before such a cast, and then converts as the processor does. The handler lets the
// thread continue in single steps, also through hooks, until the conversion, whose result is replaced. On aarch64
// conversions saturate.
#include "runtime.h"

#include <signal.h>
#include <string.h>
#include <ucontext.h>

namespace peakgate {
namespace {

struct CastType {
    uint16_t kind, info; // of an integer 2 log2(bits), plus 1 if signed; of a floating-point number its bits
};
struct Cast {
    const char* file;
    uint32_t line, column;
    const CastType *from, *to;
};

uint64_t saturated(double value, const Cast& cast) {
    const bool is_signed = cast.to->info & 1, is_wide = cast.to->info >> 1 > 5;
    const int bits = is_wide ? 64 : 32;
    const uint64_t highest = 1ull << (bits - 1), all = highest | (highest - 1);
    if (value != value) return is_wide || cast.from->info == 64 ? highest : 0;
    if (value >= __builtin_ldexp(1, bits - is_signed)) return is_signed ? highest - 1 : all;
    if (value < (is_signed ? -__builtin_ldexp(1, bits - 1) : 0)) return is_signed ? highest : 0;
    return is_signed ? static_cast<uint64_t>(static_cast<int64_t>(value)) & all : static_cast<uint64_t>(value);
}

#if defined(__x86_64__)
constexpr int REGISTERS[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                             REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
constexpr greg_t TRAP = 0x100;   // the flag for single steps
constexpr int MOST_STEPS = 100'000, STEPS_IN_KERNEL = 1000; // an instruction of the kernel counts as so many others
uint64_t result;
int converts_to, steps, thread; // the register, -1 before the conversion
struct sigaction before;

// The register to which cvttss2si or cvttsd2si at an address converts; -1 for another instruction.
int register_of_conversion(const unsigned char* code) {
    if (*code != 0xf2 && *code != 0xf3) return -1;
    const int extension = (*++code & 0xf0) == 0x40 ? *code++ : 0;
    if (code[0] != 0x0f || code[1] != 0x2c) return -1;
    return (code[2] >> 3 & 7) | (extension & 4) << 1;
}

void stepped(int, siginfo_t*, void* context) {
    auto* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    const bool converted = converts_to >= 0;
    if (converted) {
        registers[REGISTERS[converts_to]] = static_cast<greg_t>(result);
    } else if (const uintptr_t at = interrupted_at(context)) {
        converts_to = register_of_conversion(reinterpret_cast<const unsigned char*>(at - 1));
        steps += STEPS_IN_KERNEL;
    }
    if (!converted && ++steps < MOST_STEPS && thread == state.current) return;
    registers[REG_EFL] &= ~TRAP;
    sigaction(SIGTRAP, &before, nullptr);
}

void replace_next_conversion(uint64_t by) {
    result = by;
    converts_to = -1;
    steps = 0;
    thread = state.current;
    struct sigaction action = {};
    action.sa_sigaction = stepped;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGTRAP, &action, &before);
    asm volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
}
#endif

} // namespace
} // namespace peakgate

using namespace peakgate;

PEAKGATE_API void __ubsan_handle_float_cast_overflow([[maybe_unused]] const Cast* cast, [[maybe_unused]] uintptr_t bits) {
#if defined(__x86_64__)
    double value;
    if (cast->from->info == 32) {
        float narrow;
        memcpy(&narrow, &bits, sizeof narrow);
        value = static_cast<double>(narrow);
    } else {
        memcpy(&value, &bits, sizeof value);
    }
    const uint64_t wanted = saturated(value, *cast);
    // A conversion to 64 unsigned bits subtracts 2^63 from larger numbers and inverts the highest bit of the result.
    const bool inverts = cast->to->info == 12 && value >= 0x1p63;
    replace_next_conversion(inverts ? wanted ^ 1ull << 63 : wanted);
#endif
}
