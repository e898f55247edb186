/* SPDX-License-Identifier: MIT */
	.section .rodata
	.balign 64
	.globl rut_agent_image
	.globl rut_agent_image_end
rut_agent_image:
	.incbin RUT_AGENT_FILE
rut_agent_image_end:
	.byte 0
	.section .note.GNU-stack, "", @progbits
