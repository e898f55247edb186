/* SPDX-License-Identifier: MIT */
#ifndef RUT_CTF_DECODE_H
#define RUT_CTF_DECODE_H

#include "ctf/reader.h"

/* A scalar of fixed size at this place, sign-extended; the caller has checked the extent. */
uint64_t rut_decode_fixed(const uint8_t *data, uint64_t pos, const struct rut_ctf_type *t);

#endif
