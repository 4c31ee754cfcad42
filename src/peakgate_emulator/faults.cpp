// Catches signals that would end the process, for a wild address, a wild jump, a stack overflow or a division by zero:
// they are handled on a separate stack and reported, and the launch is abandoned.
#include "runtime.h"

#include <signal.h>
#include <ucontext.h>

namespace peakgate {
namespace {

constexpr int SIGNALS[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
constexpr int COUNT = sizeof SIGNALS / sizeof *SIGNALS;
struct sigaction handlers_before[COUNT];
stack_t stack_before;
alignas(64) char handler_stack[64 << 10];

uintptr_t stack_pointer(const void* context) {
    const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    return static_cast<uintptr_t>(machine.gregs[REG_RSP]);
#else
    return static_cast<uintptr_t>(machine.sp);
#endif
}

uintptr_t program_counter(const void* context) {
    const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    return static_cast<uintptr_t>(machine.gregs[REG_RIP]);
#else
    return static_cast<uintptr_t>(machine.pc);
#endif
}

// Origin of a jump: on x86-64 the call has just pushed its return address.
uintptr_t called_from(const void* context) {
#if defined(__x86_64__)
    const uintptr_t address = *reinterpret_cast<const uintptr_t*>(stack_pointer(context));
#else
    const auto address = static_cast<uintptr_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.regs[30]);
#endif
    return address - state.image < state.image_size ? address : 0;
}

// The kernel's call of a hook in which the stack overflowed: the first return address above the stack's end that is in
// the kernel. The guard, which was hit at `address`, is the stack's first 64 KiB.
uintptr_t kernel_code_above(uintptr_t stack, uintptr_t address) {
    const uintptr_t usable = state.stacks + (((address - state.stacks) | 0xffff) + 1);
    const auto* from = reinterpret_cast<const uintptr_t*>((stack > usable ? stack : usable) & ~uintptr_t{7});
    for (const uintptr_t* at = from; at < from + 128; ++at) {
        if (*at - state.image < state.image_size) return *at;
    }
    return 0;
}

void caught(int signal, siginfo_t* info, void* context) {
    const uintptr_t stack = stack_pointer(context);
    // A stack pointer outside the fibers' stacks is not a kernel's.
    if (!state.running || stack - state.stacks >= state.stacks_size) {
        for (int i = 0; i < COUNT; ++i) {
            if (SIGNALS[i] == signal) sigaction(signal, &handlers_before[i], nullptr); // the signal is raised again on return
        }
        return;
    }
    state.checking = false;
    const uintptr_t at = interrupted_at(context), address = reinterpret_cast<uintptr_t>(info->si_addr);
    const bool jumped = program_counter(context) == address;
    if (signal == SIGFPE)
        report(FAULT, at, 0, "integer division by zero");
    else if (signal == SIGILL)
        report(FAULT, at, 0, "illegal instruction");
    else if (address - state.stacks < state.stacks_size && stack < address + (64 << 10) && address < stack + (64 << 10))
        report(FAULT, at ? at : kernel_code_above(stack, address), 0, "stack overflow: recursion or local arrays of more than 192 KiB in one thread");
    else if (jumped)
        report(FAULT, called_from(context), 0, "call of an address that is not code (%#lx)",
               static_cast<unsigned long>(address));
    else
        report(FAULT, at, 0, "access to an address outside all memory (%#lx)",
               static_cast<unsigned long>(address));
    abandon_launch_from_handler(signal);
}

} // namespace

uintptr_t interrupted_at(const void* context) {
    const uintptr_t address = program_counter(context);
    // Plus one, since reports have the address after the instruction.
    return address - state.image < state.image_size ? address + 1 : 0;
}

uintptr_t called_in_kernel(const void* context) {
    const uintptr_t stack = stack_pointer(context), depth = stack - state.stacks;
    return depth < state.stacks_size ? kernel_code_above(stack, state.stacks) : 0;
}

void abandon_launch_from_handler(int signal) {
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, signal);
    sigprocmask(SIG_UNBLOCK, &own, nullptr); // the handler ends by a switch, not by a return
    abandon_launch();
}

void catch_faults() {
    stack_t own = {};
    own.ss_sp = handler_stack;
    own.ss_size = sizeof handler_stack;
    sigaltstack(&own, &stack_before);
    struct sigaction action = {};
    action.sa_sigaction = caught;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int i = 0; i < COUNT; ++i) sigaction(SIGNALS[i], &action, &handlers_before[i]);
}

void release_faults() {
    for (int i = 0; i < COUNT; ++i) sigaction(SIGNALS[i], &handlers_before[i], nullptr);
    sigaltstack(&stack_before, nullptr);
}

} // namespace peakgate
