// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* random.c - seeded sizes, contents and scatter/gather layouts. */
#include <string.h>

#include "random.h"

void t_random_init(struct t_random *random, uint64_t seed, uint64_t stream)
{
	random->state = seed * 0x9e3779b97f4a7c15ull + stream * 0xd1342543de82ef95ull;
	t_random_next(random);
}

/* splitmix64: any state is a good one */
uint64_t t_random_next(struct t_random *random)
{
	uint64_t mixed = random->state += 0x9e3779b97f4a7c15ull;

	mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ull;
	mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebull;
	return mixed ^ mixed >> 31;
}

uint64_t t_random_between(struct t_random *random, uint64_t lo, uint64_t hi)
{
	return lo + t_random_next(random) % (hi - lo + 1);
}

bool t_random_percent(struct t_random *random, unsigned int percent)
{
	return t_random_next(random) % 100 < percent;
}

void t_random_fill(struct t_random *random, void *buffer, size_t bytes)
{
	uint8_t *at = buffer;

	for (; bytes >= 8; at += 8, bytes -= 8) {
		uint64_t word = t_random_next(random);

		memcpy(at, &word, 8);
	}
	while (bytes--)
		*at++ = (uint8_t)t_random_next(random);
}

/* A multiple of a likely chunk size, or a few bytes beside it. */
static uint64_t near_a_border(struct t_random *random, uint32_t max)
{
	static const uint32_t border[] = {4096, 5000, 65536, 1000000, 1 << 20, 1024, 256};
	uint32_t unit = border[t_random_next(random) % (sizeof(border) / sizeof(border[0]))];
	uint64_t times = t_random_between(random, 1, max / unit + 1);

	return times * unit + t_random_between(random, 0, 4) - 2;
}

uint32_t t_random_size(struct t_random *random, uint32_t max)
{
	uint64_t size, bits;

	switch (t_random_next(random) % 8) {
	case 0:
		size = t_random_between(random, 0, 64);
		break;
	case 1:
	case 2:
		size = near_a_border(random, max);
		break;
	case 3:
		size = t_random_between(random, 0, max);
		break;
	default:
		/* as many orders of magnitude as sizes */
		bits = t_random_between(random, 0, 31 - (uint64_t)__builtin_clz(max | 1));
		size = t_random_between(random, 1ull << bits, (2ull << bits) - 1);
	}
	return size > max ? max : (uint32_t)size;
}

static void shuffle(struct t_layout *layout, struct t_random *random)
{
	for (uint32_t i = layout->segments; i > 1; i--) {
		uint32_t j = (uint32_t)(t_random_next(random) % i);
		struct t_segment other = layout->segment[j];

		layout->segment[j] = layout->segment[i - 1];
		layout->segment[i - 1] = other;
	}
}

void t_layout_random(struct t_layout *layout, struct t_random *random, uint32_t area_bytes,
		     uint32_t bytes, uint32_t most)
{
	uint32_t spare = area_bytes - bytes, at = 0;

	layout->segments = (uint32_t)t_random_between(random, bytes ? 1 : 0, most);
	for (uint32_t i = 0; i < layout->segments; i++) {
		bool last = i + 1 == layout->segments;
		uint32_t gap = (uint32_t)t_random_between(random, 0, last ? spare : spare / 2);
		uint32_t length =
			last ? bytes
			     : (uint32_t)t_random_between(random, 0, bytes / 2 + (bytes & 1));

		layout->segment[i] = (struct t_segment){at + gap, length};
		at += gap + length;
		spare -= gap;
		bytes -= length;
	}
	shuffle(layout, random);
}

void t_layout_gather(const struct t_layout *layout, const uint8_t *area, uint8_t *plain)
{
	for (uint32_t i = 0; i < layout->segments; i++) {
		memcpy(plain, area + layout->segment[i].offset, layout->segment[i].length);
		plain += layout->segment[i].length;
	}
}

void t_layout_scatter(const struct t_layout *layout, uint8_t *area, const uint8_t *plain,
		      uint32_t bytes)
{
	for (uint32_t i = 0; i < layout->segments && bytes; i++) {
		uint32_t part = layout->segment[i].length;

		if (part > bytes)
			part = bytes;
		memcpy(area + layout->segment[i].offset, plain, part);
		plain += part;
		bytes -= part;
	}
}
