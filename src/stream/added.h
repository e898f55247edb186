/* SPDX-License-Identifier: MIT */
/*
 * Metadata on its way to a collector.
 *
 * What a longer metadata text adds to a shorter one. Our recorders describe events in the order of
 * their numbers, so new ones come in the middle; a collector can only append. In TSDL an event may
 * be described anywhere behind its stream.
 */
#ifndef RUT_STREAM_ADDED_H
#define RUT_STREAM_ADDED_H

#include <stddef.h>

#include "base/buf.h"

/*
 * Appends to `out` the blocks of `text` that `old` has not. Returns 0, or -EINVAL with nothing
 * appended when `old` has one that `text` has not, or has them in another order.
 */
int rut_metadata_added(const char *old, size_t old_len, const char *text, size_t len,
		       struct rut_buf *out);

/*
 * Appends the text as metadata packets of CTF 1.8 for the trace with the uuid in `whole`. Live
 * readers take what is appended to metadata in this form only.
 */
void rut_metadata_packets(const char *whole, size_t whole_len, const char *text, size_t len,
			  struct rut_buf *out);

#endif
