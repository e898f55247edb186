/* SPDX-License-Identifier: MIT */
/*
 * The kinds of fields that events have: the only list of them. From it come enum rut_field_kind,
 *the metadata and what a filter needs to know; below it are the members of the records that the
 *eBPF programs fill.
 *
 *	K(symbol, form, bytes, name, TSDL)
 *
 * `form` and `bytes` say how a filter reads the field: INT, UINT or BIG (endian) of so many bytes;
 * TEXT of so many, or, with 0, of the field's count or up to a zero byte; FLOAT and OTHER it does
 * not compare. `name` is NULL, or the name of every field of this kind, where C has a macro of that
 * name. In the TSDL %s is the name and %u the count. A kind LEN8 or LEN16 is the length of the
 * sequence (SEQ_) of the same name; ARRAY_ kinds have `count` elements; SEQ_POLL is of struct
 * rut_polled, SEQ_EPOLL of struct epoll_event, SEQ_NAME of socket addresses, SEQ_MSG of messages
 * (bytes and socket address), NET_TYPE is enum rut_net_type, NET_HEADER is what packet.bpf.h
 *writes.
 */
#ifndef RUT_BPF_FIELD_KINDS_H
#define RUT_BPF_FIELD_KINDS_H

/* clang-format off */
#define RUT_TSDL_TCP_STATE \
	"enum : int32_t { \"TCP_ESTABLISHED\" = 1, \"TCP_SYN_SENT\" = 2, \"TCP_SYN_RECV\" = 3, " \
	"\"TCP_FIN_WAIT1\" = 4, \"TCP_FIN_WAIT2\" = 5, \"TCP_TIME_WAIT\" = 6, " \
	"\"TCP_CLOSE\" = 7, \"TCP_CLOSE_WAIT\" = 8, \"TCP_LAST_ACK\" = 9, \"TCP_LISTEN\" = 10, " \
	"\"TCP_CLOSING\" = 11, \"TCP_NEW_SYN_RECV\" = 12 } _%s;"

#define RUT_FIELD_KINDS(K) \
	K(S32, INT, 4, NULL, "int32_t _%s;") \
	K(ERRNO, INT, 4, "errno", "int32_t _%s;") \
	K(U32, UINT, 4, NULL, "uint32_t _%s;") \
	K(X32, UINT, 4, NULL, "xint32_t _%s;") \
	K(O32, UINT, 4, NULL, "oint32_t _%s;") \
	K(S64, INT, 8, NULL, "int64_t _%s;") \
	K(U64, UINT, 8, NULL, "uint64_t _%s;") \
	K(X64, UINT, 8, NULL, "xint64_t _%s;") \
	K(SA_HANDLER, UINT, 8, "sa_handler", "xint64_t _%s;") \
	K(U8, UINT, 1, NULL, "uint8_t _%s;") \
	K(S8, INT, 1, NULL, "int8_t _%s;") \
	K(X8, UINT, 1, NULL, "xint8_t _%s;") \
	K(U16, UINT, 2, NULL, "uint16_t _%s;") \
	K(S16, INT, 2, NULL, "int16_t _%s;") \
	K(X16, UINT, 2, NULL, "xint16_t _%s;") \
	K(BE16, BIG, 2, NULL, "be16_t _%s;") \
	K(XBE32, BIG, 4, NULL, "xbe32_t _%s;") \
	K(TEXT16, TEXT, 16, NULL, "text_t _%s[16];") \
	K(TEXT40, TEXT, 40, NULL, "text_t _%s[40];") \
	K(LEN8, UINT, 1, NULL, "uint8_t __%s_length;") \
	K(LEN16, OTHER, 0, NULL, "uint16_t __%s_length;") \
	K(SEQ_S32, OTHER, 0, NULL, "int32_t _%s[ __%s_length ];") \
	K(SEQ_X64, OTHER, 0, NULL, "xint64_t _%s[ __%s_length ];") \
	K(SEQ_U8, OTHER, 0, NULL, "uint8_t _%s[ __%s_length ];") \
	K(SEQ_X8, OTHER, 0, NULL, "xint8_t _%s[ __%s_length ];") \
	K(SEQ_BE16, OTHER, 0, NULL, "be16_t _%s[ __%s_length ];") \
	K(STR, TEXT, 0, NULL, "string _%s;") \
	K(F32, FLOAT, 4, NULL, "float32_t _%s;") \
	K(F64, FLOAT, 8, NULL, "float64_t _%s;") \
	K(TEXT, TEXT, 0, NULL, "text_t _%s[%u];") \
	K(ARRAY_X8, OTHER, 0, NULL, "xint8_t _%s[%u];") \
	K(ARRAY_X16, OTHER, 0, NULL, "xint16_t _%s[%u];") \
	K(ARRAY_X32, OTHER, 0, NULL, "xint32_t _%s[%u];") \
	K(ARRAY_X64, OTHER, 0, NULL, "xint64_t _%s[%u];") \
	K(ARRAY_S32, OTHER, 0, NULL, "int32_t _%s[%u];") \
	K(SEQ_STR, OTHER, 0, NULL, "string _%s[ __%s_length ];") \
	K(SEQ_POLL, OTHER, 0, NULL, "struct { int32_t _fd; xint16_t _raw_events; } _%s[ __%s_length ];") \
	K(SEQ_EPOLL, OTHER, 0, NULL, "struct { xint32_t _raw_events; xint64_t _data; } _%s[ __%s_length ];") \
	K(NET_TYPE, UINT, 1, NULL, "enum : uint8_t { \"unknown\" = 0, \"ipv4\" = 1, \"ipv6\" = 2 } _%s;") \
	K(NET_HEADER, OTHER, 0, NULL, NET_HEADER) \
	K(TCP_STATE, INT, 4, NULL, RUT_TSDL_TCP_STATE) \
	K(ADDR4, OTHER, 0, NULL, "uint8_t _%s[4];") \
	K(ADDR6, OTHER, 0, NULL, "xbe16_t _%s[8];") \
	K(SEQ_X32, OTHER, 0, NULL, "xint32_t _%s[ __%s_length ];") \
	K(SEQ_U32, OTHER, 0, NULL, "uint32_t _%s[ __%s_length ];") \
	K(SEQ_NAME, OTHER, 0, NULL, SEQ_NAME) \
	K(SEQ_MSG, OTHER, 0, NULL, SEQ_MSG)

/* What a record has of each kind in its fixed part; the variable ones follow behind it. */
#define RUT_C_U8(f)	     __u8 f;
#define RUT_C_S8(f)	     __s8 f;
#define RUT_C_U16(f)	     __u16 f;
#define RUT_C_XBE32(f)	     __u32 f;
#define RUT_C_S32(f)	     __s32 f;
#define RUT_C_U32(f)	     __u32 f;
#define RUT_C_X32(f)	     __u32 f;
#define RUT_C_O32(f)	     __u32 f;
#define RUT_C_S64(f)	     __s64 f;
#define RUT_C_U64(f)	     __u64 f;
#define RUT_C_X64(f)	     __u64 f;
#define RUT_C_ERRNO(f)	     __s32 f; /* named errno, which is a macro in C */
#define RUT_C_SA_HANDLER(f)  __u64 f; /* named sa_handler, a macro too */
#define RUT_C_TEXT16(f)	     char f[16];
#define RUT_C_TEXT40(f)	     char f[40];
#define RUT_C_LEN8(f)	     __u8 f##_length;
#define RUT_C_NET_TYPE(f)    __u8 f; /* enum rut_net_type */
#define RUT_C_TCP_STATE(f)   __s32 f;
#define RUT_C_ADDR4(f)	     __u8 f[4];
#define RUT_C_ADDR6(f)	     __u8 f[16];
#define RUT_C_STR(f)	     /* variable */
#define RUT_C_NET_HEADER(f)  /* variable: see bpf/packet.bpf.h */
#define RUT_C_SEQ_S32(f)     /* variable */
#define RUT_C_SEQ_X64(f)     /* variable */
#define RUT_C_SEQ_X8(f)	     /* variable */
#define RUT_C_FIELD(kind, f) RUT_C_##kind(f)
/* clang-format on */

#endif
