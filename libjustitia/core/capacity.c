// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* capacity.c - Rmin, SafeUtil and the token clock (paper 4.3.1, 4.3.4, 5.2). */
#include "core.h"

#define NS_PER_S 1000000000ull

/* a * b / c without overflow, rounded down; the quotient must fit. */
static uint64_t scale(uint64_t a, uint64_t b, uint64_t c)
{
	return (uint64_t)((unsigned __int128)a * b / c);
}

/* The part of MaxRate that belongs to the bandwidth and throughput apps. */
static uint64_t rmin(uint64_t max_rate, uint64_t hungry_weight, uint64_t latency_weight)
{
	uint64_t rate = max_rate;

	if (hungry_weight)
		rate = scale(max_rate, hungry_weight, hungry_weight + latency_weight);
	return rate ? rate : 1;
}

static uint64_t latency_weight(const struct jst_card *card, const struct jst_population *pop)
{
	uint32_t apps = pop->apps[JST_CLASS_LATENCY];
	uint64_t weight = pop->weight_milli[JST_CLASS_LATENCY];

	/* As one app: of their mean weight, so that equal weights give L = 1. */
	return card->count_latency_once && apps ? weight / apps : weight;
}

void jst_capacity(const struct jst_card *card, const struct jst_population *pop,
		  struct jst_rate *rate)
{
	bool guarded = pop->apps[JST_CLASS_LATENCY] > 0;
	uint64_t hungry = pop->weight_milli[JST_CLASS_BANDWIDTH] +
			  pop->weight_milli[JST_CLASS_THROUGHPUT];
	uint64_t latency = latency_weight(card, pop);
	uint64_t max_rate = guarded ? card->max_bytes_small_per_s : card->max_bytes_per_s;

	rate->rmin_bytes_per_s = rmin(max_rate, hungry, latency);
	rate->rmin_ops_per_s = rmin(card->max_ops_per_s, hungry, latency);
	rate->safeutil_bytes_per_s = rate->rmin_bytes_per_s;
	rate->safeutil_ops_per_s = rate->rmin_ops_per_s;

	rate->token_bytes = guarded ? card->token_bytes_small : card->token_bytes_large;
	rate->token_interval_ns = scale(rate->token_bytes, NS_PER_S, rate->safeutil_bytes_per_s);
	if (!rate->token_interval_ns)
		rate->token_interval_ns = 1;
	rate->token_ops = (uint32_t)scale(rate->token_bytes, rate->safeutil_ops_per_s,
					  rate->safeutil_bytes_per_s);
	if (!rate->token_ops)
		rate->token_ops = 1;
}
