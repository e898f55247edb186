/* SPDX-License-Identifier: MIT */
/* The same for 32 bits. */
	.globl _start
_start:
	mov $4, %eax
	mov $1, %ebx
	mov $text, %ecx
	mov $6, %edx
	int $0x80
1:	mov $29, %eax /* pause */
	int $0x80
	jmp 1b
text:	.ascii "ready\n"
	.section .note.GNU-stack, "", @progbits
