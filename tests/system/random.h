/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * random.h - seeded randomness that both ends of a test can repeat, and the
 * layouts of scattered buffers that are drawn from it.
 */
#ifndef T_RANDOM_H
#define T_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct t_random {
	uint64_t state;
};

/* Different @stream numbers give independent sequences of one seed. */
void t_random_init(struct t_random *random, uint64_t seed, uint64_t stream);

uint64_t t_random_next(struct t_random *random);

/* lo to hi, both included. */
uint64_t t_random_between(struct t_random *random, uint64_t lo, uint64_t hi);

/* True in @percent of all cases. */
bool t_random_percent(struct t_random *random, unsigned int percent);

void t_random_fill(struct t_random *random, void *buffer, size_t bytes);

/*
 * A message size from 0 to @max: small, large, and next to the borders where a
 * message is cut (4 KiB, 5,000 B, 64 KiB, 1 MB and their multiples).
 */
uint32_t t_random_size(struct t_random *random, uint32_t max);

#define T_SEGMENTS 16u

struct t_segment {
	uint32_t offset;
	uint32_t length;
};

struct t_layout {
	uint32_t segments;
	struct t_segment segment[T_SEGMENTS];
};

/*
 * @bytes in at most @most pieces that do not overlap, in random order, with
 * gaps, within an area of @area_bytes. Pieces may be empty.
 */
void t_layout_random(struct t_layout *layout, struct t_random *random, uint32_t area_bytes,
		     uint32_t bytes, uint32_t most);

/* Copies between a plain buffer and the pieces of @area. */
void t_layout_gather(const struct t_layout *layout, const uint8_t *area, uint8_t *plain);
void t_layout_scatter(const struct t_layout *layout, uint8_t *area, const uint8_t *plain,
		      uint32_t bytes);

#endif
