/* SPDX-License-Identifier: MIT */
/*
 * Ruby stacks: shared by the programs and user space.
 *
 * A program that runs in the context of a Ruby thread reads that thread's control frames, from the
 * thread pointer alone: nothing is set in the process, and no thread is stopped. User space finds
 * out once per process where things are (struct rut_ruby_vm); everything else happens in the
 * program, at the moment of the event, while the frames are on the stack and the code that they run
 * cannot be freed or moved. So a name is never read later than the frame that it belongs to.
 *
 * A frame is one word: the hash of the code (its file, first line, method and class) and the line.
 * Equal code has equal words in all processes. The words of a stack go into the table of stacks
 * (bpf/stack.h), the names of each code into a table of codes, both checked by their hash when they
 * are read.
 *
 * The names of a frame are read once for each garbage collection of its process: until the next
 * one begins no code is freed, so an address that was seen since means the same code (`cache`).
 */
#ifndef RUT_BPF_RUBY_H
#define RUT_BPF_RUBY_H

#include <linux/types.h>

#include "bpf/stack.h"

#define RUT_RUBY_PROCS	4096
#define RUT_RUBY_NATIVE 32 /* native frames beside a Ruby stack */

/* How a thread's execution context is found from its thread pointer. */
enum rut_ruby_tls {
	RUT_RUBY_TLS_DTV = 1, /* thread-local variable of a module: through the DTV */
	RUT_RUBY_TLS_THREAD,  /* Ruby < 3.0: rb_thread_t in the thread's control block */
};

enum rut_ruby_class_path {
	RUT_RUBY_CLASS_NONE,
	RUT_RUBY_CLASS_WORD,  /* a word of the class */
	RUT_RUBY_CLASS_TABLE, /* an instance variable in an st_table */
};

#define RUT_RUBY_UNKNOWN (~0u)

/* What the programs know of a process, by its id. */
struct rut_ruby_vm {
	__u64 generation; /* differs for each process that ever had this id */
	__u64 gc_count;	  /* address of the number of garbage collections; 0: unknown */
	__u64 ids;	  /* address of the VALUE of the table of symbols; 0: unknown */
	__u64 class_id;	  /* RUT_RUBY_CLASS_TABLE: key of the instance variable */
	__u64 loop;	  /* an address in the function that runs instructions; 0: unknown */
	__u32 tls;	  /* enum rut_ruby_tls */
	__u32 tls_module; /* DTV: index */
	__u32 tls_entry;  /* DTV: bytes of an entry */
	__u32 tls_offset; /* DTV: of the variable; THREAD: of the pointer in the control block */
	__u32 tls_words;  /* DTV: words to try while tls_offset is RUT_RUBY_UNKNOWN */
	__u32 frame_bytes;
	__u32 insns_info; /* offset in the body of an instruction sequence */
	__u32 insn_bytes; /* of an entry of insns_info */
	__u32 line_value; /* 1: first_lineno is a VALUE */
	__u32 string_len; /* 1: strings have their length in a word of its own */
	__u32 class_kind; /* enum rut_ruby_class_path */
	__u32 class_at;	  /* WORD: offset in the class */
	__u32 thread_ec;  /* THREAD: offset of the context in rb_thread_t */
	__u32 singleton;  /* flag of singleton classes */
	/*
	 * DTV: the variable's distance from the thread pointer, where it is in the block of the
	 * static ones; 0: unknown. The programs learn it: the same in all threads.
	 */
	__s32 tls_static;
	__u32 _pad;
};

#define RUT_CODE_WAYS 8
#define RUT_CODE_SETS 2048

#define RUT_CODE_PATH  256
#define RUT_CODE_LABEL 128
#define RUT_CODE_CLASS 128

enum rut_code_kind {
	RUT_CODE_RUBY = 1,
	RUT_CODE_C,
};

/* Names of one piece of code. Text is padded with zeros; a long path has lost its beginning. */
struct rut_code {
	__u32 line;	 /* the first */
	__u16 kind;	 /* enum rut_code_kind */
	__u16 singleton; /* 1: a method of the class itself */
	char path[RUT_CODE_PATH];
	char label[RUT_CODE_LABEL];
	char class_name[RUT_CODE_CLASS];
};

#define RUT_CODE_WORDS (sizeof(struct rut_code) / 8)

_Static_assert(sizeof(struct rut_code) % 8 == 0, "words");

/* The hash by which code is known; `seed`: the first 8 bytes of the session's UUID. */
static inline __attribute__((always_inline)) __u64 rut_code_hash(const struct rut_code *code,
								 __u64 seed)
{
	const __u64 *words = (const __u64 *)(const void *)code;

	for (__u32 i = 0; i < RUT_CODE_WORDS; i++)
		seed = rut_stack_hash_step(seed, words[i]);
	return rut_stack_hash_end(seed);
}

/* As struct rut_stack_set. */
struct rut_code_set {
	__u64 id[RUT_CODE_WAYS];
	__u64 used_ns[RUT_CODE_WAYS];
	__u64 written[RUT_CODE_WAYS];
	struct rut_code code[RUT_CODE_WAYS];
};

/* Codes are used by what is in the cache, which is renewed at least so often. */
#define RUT_CODE_TOUCH_SHIFT 10 /* of jiffies: 1 to 10 s */
#define RUT_CODE_TOUCH_NS    (2ull << 34)

/* A frame: whether C code began it, 1, 44 bits of the code's hash, 18 bits of the line. */
#define RUT_FRAME_LINE_BITS 18
#define RUT_FRAME_LINE_MAX  ((1u << RUT_FRAME_LINE_BITS) - 1)
#define RUT_FRAME_MARK	    (1ull << 62)
#define RUT_FRAME_BEGUN	    (1ull << 63) /* the interpreter's loop was entered for it */
#define RUT_FRAME_ID(hash)  ((hash) >> 20)
#define RUT_FRAME(id, line) (RUT_FRAME_MARK | (id) << RUT_FRAME_LINE_BITS | (line))

static inline __u64 rut_frame_code(__u64 frame)
{
	return (frame & (RUT_FRAME_MARK - 1)) >> RUT_FRAME_LINE_BITS;
}

static inline __u32 rut_frame_line(__u64 frame)
{
	return frame & RUT_FRAME_LINE_MAX;
}

/*
 * A Ruby stack in the table of stacks: the number of the part outside of it (0: none), then its
 * frames, outermost first. Deep stacks have equal outer parts, which are stored once.
 */
#define RUT_RUBY_DEPTH 1024
#define RUT_RUBY_CHUNK 64

#define RUT_CACHE_ENTRIES 65536

/* By address of the program counter, or of the method entry of a C method. Any word of it may be
 * another's when two CPUs write at once: then `check` is wrong. */
struct rut_frame_cache {
	__u64 key, epoch, frame, check;
};

#endif
