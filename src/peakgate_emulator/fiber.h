// Switches between fibers in some 5 ns; the C library's swapcontext takes 250, since it makes a system call.
#pragma once

#include <stdint.h>
#include <string.h>

// Saves the running fiber's registers on its stack and its stack pointer in *save, then continues the fiber `resume`.
extern "C" void peakgate_switch(void** save, void* resume);

#if defined(__x86_64__)

// The last jump is a `ret`, which the processor predicts from the calls of the previous fiber: threads of a block
// usually wait at one place, so this and the following returns are predicted correctly. Another kind of jump would
// shift all predictions.
asm(R"(
.text
.globl peakgate_switch
.hidden peakgate_switch
.type peakgate_switch,@function
peakgate_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
.size peakgate_switch, .-peakgate_switch
)");

// The stack pointer of a new fiber that starts in `entry`, which must not return. `top` is a multiple of 16.
inline void* peakgate_new_fiber(char* top, void (*entry)()) {
    void** stack = reinterpret_cast<void**>(top);
    *--stack = nullptr; // in place of a return address: keeps the stack aligned as after a call
    *--stack = reinterpret_cast<void*>(entry);
    for (int saved = 0; saved < 6; ++saved) *--stack = nullptr;
    return stack;
}

#elif defined(__aarch64__)

asm(R"(
.text
.globl peakgate_switch
.hidden peakgate_switch
.type peakgate_switch,%function
peakgate_switch:
    sub sp, sp, #160
    stp x19, x20, [sp]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size peakgate_switch, .-peakgate_switch
)");

inline void* peakgate_new_fiber(char* top, void (*entry)()) {
    void** stack = reinterpret_cast<void**>(top - 160);
    memset(stack, 0, 160);
    stack[11] = reinterpret_cast<void*>(entry); // x30, the link register
    return stack;
}

#else
#error "the emulator switches fibers on x86-64 and aarch64 only"
#endif
