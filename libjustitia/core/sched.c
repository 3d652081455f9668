// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* sched.c - weighted round robin: whose turn is it to get a token (4.3.4). */
#include <string.h>

#include "core.h"

#define WORD_BITS 64u
#define WORDS (JST_SCHED_APPS / WORD_BITS)
#define ONE_TOKEN_MILLI 1000u

void jst_sched_init(struct jst_sched *sched)
{
	memset(sched, 0, sizeof(*sched));
}

void jst_sched_join(struct jst_sched *sched, uint32_t app, uint32_t weight_milli)
{
	sched->weight_milli[app] = weight_milli;
	sched->credit_milli[app] = 0;
	jst_sched_set_hungry(sched, app, false);
}

void jst_sched_set_hungry(struct jst_sched *sched, uint32_t app, bool hungry)
{
	uint64_t bit = 1ull << (app % WORD_BITS);

	if (hungry) {
		sched->hungry[app / WORD_BITS] |= bit;
	} else {
		sched->hungry[app / WORD_BITS] &= ~bit;
		/* A turn that was not used is not saved up. */
		sched->credit_milli[app] = 0;
	}
}

bool jst_sched_is_hungry(const struct jst_sched *sched, uint32_t app)
{
	return sched->hungry[app / WORD_BITS] >> (app % WORD_BITS) & 1;
}

/* The first hungry app at or after @from, going round once; -1 if none. */
static int next_hungry(const struct jst_sched *sched, uint32_t from)
{
	uint32_t word = from / WORD_BITS;
	uint64_t bits = sched->hungry[word] & (~0ull << (from % WORD_BITS));

	for (uint32_t i = 0; i <= WORDS; i++) {
		if (bits)
			return (int)(word * WORD_BITS) + __builtin_ctzll(bits);
		word = (word + 1) % WORDS;
		bits = sched->hungry[word];
	}
	return -1;
}

int jst_sched_next(struct jst_sched *sched)
{
	uint32_t at = sched->cursor;
	int app;

	if (jst_sched_is_hungry(sched, at) && sched->credit_milli[at] >= ONE_TOKEN_MILLI) {
		sched->credit_milli[at] -= ONE_TOKEN_MILLI;
		return (int)at;
	}
	/* The least weight bounds this: a few rounds at the most. */
	for (;;) {
		app = next_hungry(sched, (at + 1) % JST_SCHED_APPS);
		if (app < 0)
			return -1;
		at = (uint32_t)app;
		sched->credit_milli[at] += sched->weight_milli[at];
		if (sched->credit_milli[at] >= ONE_TOKEN_MILLI)
			break;
	}
	sched->cursor = at;
	sched->credit_milli[at] -= ONE_TOKEN_MILLI;
	return app;
}
