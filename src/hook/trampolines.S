/* Every entry point of the driver, or of the library whose list SLUICE_ENTRY_POINTS is: one jump
 * through its slot of a table. A slot first leads to `resolve`, which has the address looked up and
 * the slot patched (sluice_resolve_entry) and then jumps there, with all that the caller passed in
 * place: argument registers, vector ones included, and the stack, which is as the caller left it. So
 * any signature passes. No function of these takes a vector wider than 128 bits by value.
 *
 * `name` is exported where the entry point is passed on; `driver_name`, hidden, is for the hooks. Any
 * thread may come at any time: a slot is one aligned word, and all write the same. */
        .set    entry, 0
        .hidden sluice_resolve_entry
        .data
        .balign 64
        .globl  sluice_driver_table
        .hidden sluice_driver_table
sluice_driver_table:
        .text
        .cfi_startproc

        .macro  hooked name
        .globl  driver_\name
        .hidden driver_\name
        .type   driver_\name, %function
driver_\name:
        jump    slot_\name
first_\name:
        resolve_as entry
        .pushsection .data
slot_\name:
        .quad   first_\name
        .popsection
        .set    entry, entry + 1
        .endm

        .macro  passed name
        .globl  \name
        .type   \name, %function
\name:
        hooked  \name
        .endm

#if defined(__x86_64__)
        .macro  jump slot
        jmp     *\slot(%rip)
        .endm

        .macro  resolve_as number
        movl    $\number, %r11d
        jmp     resolve
        .endm
#elif defined(__aarch64__)
        .macro  jump slot
        adrp    x16, \slot
        ldr     x16, [x16, :lo12:\slot]
        br      x16
        .endm

        .macro  resolve_as number
        mov     w17, \number
        b       resolve
        .endm
#else
#error "the hook knows x86-64 and aarch64"
#endif

#ifndef SLUICE_ENTRY_POINTS
#define SLUICE_ENTRY_POINTS "hook/entry_points.inc"
#endif
#define SLUICE_PASSED(name) passed name
#define SLUICE_HOOKED(name, ...) hooked name
#include SLUICE_ENTRY_POINTS
        .cfi_endproc

/* From a slot's first use, with the entry's number in r11d or w17. */
        .type   resolve, %function
resolve:
        .cfi_startproc
#if defined(__x86_64__)
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register %rbp
        subq    $192, %rsp
        movaps  %xmm0, (%rsp)
        movaps  %xmm1, 16(%rsp)
        movaps  %xmm2, 32(%rsp)
        movaps  %xmm3, 48(%rsp)
        movaps  %xmm4, 64(%rsp)
        movaps  %xmm5, 80(%rsp)
        movaps  %xmm6, 96(%rsp)
        movaps  %xmm7, 112(%rsp)
        movq    %rdi, 128(%rsp)
        movq    %rsi, 136(%rsp)
        movq    %rdx, 144(%rsp)
        movq    %rcx, 152(%rsp)
        movq    %r8, 160(%rsp)
        movq    %r9, 168(%rsp)
        movq    %rax, 176(%rsp)         /* varargs: how many vector registers */
        movl    %r11d, %edi
        call    sluice_resolve_entry
        movq    %rax, %r11
        movaps  (%rsp), %xmm0
        movaps  16(%rsp), %xmm1
        movaps  32(%rsp), %xmm2
        movaps  48(%rsp), %xmm3
        movaps  64(%rsp), %xmm4
        movaps  80(%rsp), %xmm5
        movaps  96(%rsp), %xmm6
        movaps  112(%rsp), %xmm7
        movq    128(%rsp), %rdi
        movq    136(%rsp), %rsi
        movq    144(%rsp), %rdx
        movq    152(%rsp), %rcx
        movq    160(%rsp), %r8
        movq    168(%rsp), %r9
        movq    176(%rsp), %rax
        leave
        .cfi_def_cfa %rsp, 8
        jmp     *%r11
#else
        stp     x29, x30, [sp, #-224]!
        .cfi_def_cfa_offset 224
        .cfi_offset x29, -224
        .cfi_offset x30, -216
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        stp     x2, x3, [sp, #32]
        stp     x4, x5, [sp, #48]
        stp     x6, x7, [sp, #64]
        str     x8, [sp, #80]           /* where a large result goes */
        stp     q0, q1, [sp, #96]
        stp     q2, q3, [sp, #128]
        stp     q4, q5, [sp, #160]
        stp     q6, q7, [sp, #192]
        mov     w0, w17
        bl      sluice_resolve_entry
        mov     x16, x0
        ldp     q6, q7, [sp, #192]
        ldp     q4, q5, [sp, #160]
        ldp     q2, q3, [sp, #128]
        ldp     q0, q1, [sp, #96]
        ldr     x8, [sp, #80]
        ldp     x6, x7, [sp, #64]
        ldp     x4, x5, [sp, #48]
        ldp     x2, x3, [sp, #32]
        ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #224
        .cfi_def_cfa_offset 0
        .cfi_restore x29
        .cfi_restore x30
        br      x16
#endif
        .cfi_endproc

        .section .note.GNU-stack, "", %progbits
