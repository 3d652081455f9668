// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* split.c - the next chunk of a message, across its scatter/gather list. */
#include "core.h"

uint64_t jst_chunk_length(uint64_t left, uint32_t chunk_bytes)
{
	return chunk_bytes && left > chunk_bytes ? chunk_bytes : left;
}

uint32_t jst_split(const struct jst_segment *in, uint32_t n, uint64_t offset, uint64_t length,
		   struct jst_segment *out)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < n && length; i++) {
		uint64_t part;

		if (offset >= in[i].length) {
			offset -= in[i].length;
			continue;
		}
		part = in[i].length - offset;
		if (part > length)
			part = length;
		out[used].addr = in[i].addr + offset;
		out[used].length = (uint32_t)part;
		out[used].key = in[i].key;
		used++;
		length -= part;
		offset = 0;
	}
	return used;
}
