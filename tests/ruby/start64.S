/* SPDX-License-Identifier: MIT */
/* Says "ready" and sleeps, without any C library. */
	.globl _start
_start:
	mov $1, %eax
	mov $1, %edi
	lea text(%rip), %rsi
	mov $6, %edx
	syscall
1:	mov $34, %eax /* pause */
	syscall
	jmp 1b
text:	.ascii "ready\n"
	.section .note.GNU-stack, "", @progbits
